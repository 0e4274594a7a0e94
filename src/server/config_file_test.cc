// Options from a file in the format of redis.conf (server/config_file.h).
#include "server/config_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

#include "base/clock.h"
#include "server/flags.h"
#include "server/server.h"

namespace isotherm::config_file_test {
namespace {

class ConfigFileTest : public testing::Test {
 protected:
  ~ConfigFileTest() override { std::filesystem::remove_all(folder_); }

  std::string write(const std::string& name, const std::string& text) {
    const std::string path = folder_ + "/" + name;
    std::ofstream(path) << text;
    return path;
  }

  // What is said of a wrong file; empty: it is right, and `options_` are its.
  std::string parse(const std::string& path, std::vector<const char*> flags = {}) {
    flags.insert(flags.begin(), {"isotherm-server", path.c_str()});
    options_ = {};
    testing::internal::CaptureStderr();
    const auto status = parse_flags(static_cast<int>(flags.size()), flags.data(), options_);
    const std::string said = testing::internal::GetCapturedStderr();
    EXPECT_EQ(status.has_value(), !said.empty());
    return said;
  }

  const std::string folder_ = [] {
    std::string path = testing::TempDir() + "/config_file_XXXXXX";
    return std::string(::mkdtemp(path.data()));
  }();
  net::ServerOptions options_;
};

TEST_F(ConfigFileTest, LinesAreFlags) {
  const std::string path = write("redis.conf",
                                 "# a comment\n"
                                 "  # another, which isn't read\n"
                                 "\n"
                                 "PORT 7001\r\n"
                                 "\tbind 127.0.0.1 ::1\n"
                                 "maxmemory 100mb\n"
                                 "dbfilename \"a\\x20file.rdb\"\n"
                                 "appendfilename 'the journal'\n"
                                 "save 900 1\n"
                                 "save 300 10 60 10000\n"
                                 "slowlog-log-slower-than -1\n"
                                 "memcached-disable-flush-all\n"
                                 "timeout 1\n"
                                 "timeout 2");
  EXPECT_EQ(parse(path, {"--port", "7002"}), "");
  EXPECT_EQ(options_.config_file, path);
  EXPECT_EQ(options_.port, 7002) << "the command line counts";
  EXPECT_EQ(options_.bind, (std::vector<std::string>{"127.0.0.1", "::1"}));
  EXPECT_EQ(options_.store.maxmemory, 100u << 20);
  EXPECT_EQ(options_.dbfilename, "a file.rdb");
  EXPECT_EQ(options_.appendfilename, "the journal");
  EXPECT_EQ(to_string(options_.save), "900 1 300 10 60 10000");
  EXPECT_EQ(options_.slowlog_log_slower_than, -1);
  EXPECT_FALSE(options_.memcached_flush);
  EXPECT_EQ(options_.timeout, 2u) << "the last of several counts";
}

TEST_F(ConfigFileTest, AnEmptySaveTakesThoseBeforeItBack) {
  EXPECT_EQ(parse(write("none.conf", "save 900 1\nsave \"\"\n")), "");
  EXPECT_TRUE(options_.save.empty());
  EXPECT_EQ(parse(write("some.conf", "save 900 1\nsave ''\nsave 5 6\n")), "");
  EXPECT_EQ(to_string(options_.save), "5 6");
  EXPECT_EQ(parse(write("all.conf", "save 900 1\n"), {"--save", ""}), "");
  EXPECT_TRUE(options_.save.empty());
  EXPECT_EQ(parse(write("all.conf", "save 900 1\n"), {"--save=", "--memcached-port", "off"}), "");
  EXPECT_TRUE(options_.save.empty());
  EXPECT_EQ(options_.memcached_port, -1);
}

TEST_F(ConfigFileTest, FilesAreIncluded) {
  const std::string more = write("more.conf", "timeout 5\ndatabases 3\n");
  const std::string path = write("redis.conf", "timeout 1\ninclude " + more + "\ndatabases 4\n");
  EXPECT_EQ(parse(path), "");
  EXPECT_EQ(options_.timeout, 5u);
  EXPECT_EQ(options_.store.databases, 4u);
}

TEST_F(ConfigFileTest, WhatIsWrongIsSaidWithItsLine) {
  const std::string path = folder_ + "/redis.conf";
  const auto said = [&](const std::string& text) { return parse(write("redis.conf", text)); };
  const auto has = [](const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
  };
  const std::string unknown = said("protected-mode no\nport 7001\nhelp\ndaemonize yes\n");
  EXPECT_TRUE(has(unknown, path + ":1 'protected-mode', " + path + ":3 'help', " + path +
                               ":4 'daemonize': no such option"))
      << unknown;
  EXPECT_TRUE(has(said("\ndir \"x"), path + ":2: unbalanced quotes"));
  EXPECT_TRUE(has(said("include"), path + ":1: give one file"));
  EXPECT_TRUE(has(said("include " + path), path + ":1: " + path + " is included by 16 files"));
  EXPECT_TRUE(has(said("include " + folder_ + "/none"),
                  folder_ + "/none: cannot be read as a configuration file: No such file"));
  EXPECT_TRUE(has(said("\nport seven"), path + ":2: --port: 'seven' is not a port"));
  const std::string flags[] = {"threads 0",  "threads 010",   "tcp-keepalive x", "save 900",
                               "loglevel x", "maxmemory 1 2", "bind nowhere",    "appendonly -"};
  for (const std::string& line : flags) {
    const std::string wrong = said("save 900 1\n" + line + "\nport 7001\n");
    EXPECT_TRUE(has(wrong, path + ":2: ")) << wrong;
    EXPECT_TRUE(has(wrong, "--" + line.substr(0, line.find(' ')))) << wrong;
  }
  EXPECT_TRUE(has(said("threads 0\nthreads 1\n"), path + ":1: ")) << "also where another counts";
  const std::string more = write("more.conf", "timeout x\n");
  EXPECT_TRUE(has(said("include " + more), more + ":1: "));
  EXPECT_TRUE(has(parse(folder_), "cannot be read as a configuration file: Is a directory"));
  EXPECT_TRUE(has(parse(folder_ + "/none"), "No such file"));
}

TEST_F(ConfigFileTest, ALineHasAValueWhereItsOptionTakesOne) {
  const std::string path = folder_ + "/redis.conf";
  const auto said = [&](const std::string& text, const std::vector<const char*>& flags = {}) {
    return parse(write("redis.conf", text), flags);
  };
  const auto lacks = [&](const std::string& name, const std::string& line) {
    return "isotherm-server: " + path + ":" + line + " '" + name +
           "': a value is missing\nRun with --help for the flags.\n";
  };
  EXPECT_EQ(said("unixsocket\nmemcached-disable-flush-all\nport 7391\n"), lacks("unixsocket", "1"));
  EXPECT_EQ(said("port 7\nappendonly\nmaxmemory 100mb\n"), lacks("appendonly", "2"));
  EXPECT_EQ(said("unixsocket\n", {"--memcached-disable-flush-all"}), lacks("unixsocket", "1"));
  EXPECT_EQ(said("\nmemcached-disable-flush-all no\n"),
            "isotherm-server: " + path +
                ":2 'memcached-disable-flush-all': takes no value; take 'no' out\n"
                "Run with --help for the flags.\n");
}

TEST_F(ConfigFileTest, WhatCannotBeReadIsNotTheEndOfAFile) {
  EXPECT_EQ(parse("/proc/self/mem").find("isotherm-server: /proc/self/mem: cannot be read"), 0u);
}

TEST_F(ConfigFileTest, LinesHaveABound) {
  const std::string longest = "# the first\n" + std::string((1 << 20) - 9, ' ') + "timeout 5";
  for (const char* end : {"", "\n", "\nport 7\n"}) {
    EXPECT_EQ(parse(write("redis.conf", longest + end)), "");
    EXPECT_EQ(options_.timeout, 5u);
  }
  EXPECT_EQ(options_.port, 7);
  for (const char* end : {"0", "0\nport 7\n"}) {
    const std::string path = write("redis.conf", longest + end);
    EXPECT_EQ(parse(path).find("isotherm-server: " + path + ":2: the line is longer than 1mb"), 0u);
  }
  EXPECT_EQ(parse("/dev/zero").find("isotherm-server: /dev/zero:1: the line is longer"), 0u);
}

TEST_F(ConfigFileTest, NoLineHasANulByte) {
  const std::string path = folder_ + "/redis.conf";
  const auto refused = [&](const std::string& line) {
    const std::string said = parse(write("redis.conf", "# \\x00\n" + line));
    return said.starts_with("isotherm-server: " + path + ":2: there is a NUL byte");
  };
  const std::string nul(1, '\0');
  for (const std::string& line :
       {std::string(R"(dir "/tmp\x00abc")"), std::string(R"(dbfilename "a\x00b")"),
        std::string(R"(appendfilename "a\x00b")"), "maxmemory 100mb" + nul + "garbage",
        "dir '/tmp" + nul + "'", nul + "timeout 1"}) {
    EXPECT_TRUE(refused(line)) << line;
  }
}

TEST_F(ConfigFileTest, AValueMayBeTheNameOfAFlag) {
  EXPECT_EQ(parse(write("redis.conf", "unixsocket --port\nmemcached-unixsocket a=b\n")), "");
  EXPECT_EQ(options_.unixsocket, "--port");
  EXPECT_EQ(options_.memcached_unixsocket, "a=b");
}

TEST_F(ConfigFileTest, APathThatLeadsNowhereIsSaidSo) {
  const auto refused = [](const std::string& said, const std::string& path,
                          const std::string& reason) {
    return said.starts_with("isotherm-server: " + path +
                            ": cannot be read as a configuration file: " + reason);
  };
  EXPECT_TRUE(refused(parse(""), "''", "No such file"));
  const std::string long_path(5000, 'a');
  EXPECT_TRUE(refused(parse(long_path), long_path, "File name too long"));
  const std::string long_name(300, 'a');
  EXPECT_TRUE(
      refused(parse(write("redis.conf", "include " + long_name)), long_name, "File name too long"));
  const std::string loop = folder_ + "/loop";
  std::filesystem::create_symlink(loop, loop);
  EXPECT_TRUE(refused(parse(loop), loop, "Too many levels of symbolic links"));
}

TEST_F(ConfigFileTest, AWorkingFolderMayBeGone) {
  const std::string path = write("redis.conf", "timeout 5\n");
  const auto before = std::filesystem::current_path();
  std::filesystem::create_directory(folder_ + "/gone");
  std::filesystem::current_path(folder_ + "/gone");
  std::filesystem::remove(folder_ + "/gone");
  const std::string relative = parse("redis.conf");
  const std::string absolute = parse(path);
  std::filesystem::current_path(before);
  EXPECT_NE(relative.find("redis.conf: cannot be read as a configuration file: No such file"),
            std::string::npos);
  EXPECT_EQ(absolute, "");
  EXPECT_EQ(options_.config_file, path);
}

// 192.0.2.0/24 is for documentation, and no machine has an address of it.
TEST_F(ConfigFileTest, AnAddressMayBeMissingWhereItsLineSaysSo) {
  const SystemClock clock;
  const std::string ports = "port 0\nmemcached-port off\nthreads 1\n";
  ASSERT_EQ(parse(write("some.conf", ports + "bind -192.0.2.1 127.0.0.1\n")), "");
  {
    Server server(options_, clock);
    server.start();
    EXPECT_NE(server.resp_port(), 0);
  }
  ASSERT_EQ(parse(write("wrong.conf", ports + "bind 192.0.2.1 127.0.0.1\n")), "");
  EXPECT_THROW(Server(options_, clock).start(), std::system_error);
  ASSERT_EQ(parse(write("none.conf", ports + "bind -192.0.2.1\n")), "");
  EXPECT_THROW(Server(options_, clock).start(), std::invalid_argument);
}

}  // namespace
}  // namespace isotherm::config_file_test
