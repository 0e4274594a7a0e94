// StoredServerFixture: for tests of a server that keeps what it has in a folder of its own: it is
// started again and again, and may be lost as by a crash.
//
// Threads. The test's.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

#include "durability/rdb_file.h"
#include "models/copied_files.h"
#include "models/faulty_files.h"
#include "server/server.h"
#include "server/test_client.h"
#include "tree/tree.h"

namespace isotherm {

class StoredServerFixture : public ::testing::Test {
 protected:
  StoredServerFixture() {
    std::string path = std::filesystem::temp_directory_path() / "isotherm-server-XXXXXX";
    options_.dir = ::mkdtemp(path.data());
    options_.port = options_.memcached_port = 0;
    options_.threads = 2;
  }
  ~StoredServerFixture() override {
    stop();
    std::filesystem::remove_all(options_.dir);
  }

  void start() {
    stop();
    server_ = make();
    server_->start(files_);
    client_ = std::make_unique<TestClient>(server_->resp_port());
  }
  void start_with_tree() {
    options_.store.tree = options_.dir + "/tree";
    try {
      start();
    } catch (const TreeError&) {
      GTEST_SKIP() << "built without RocksDB";
    }
  }
  virtual std::unique_ptr<Server> make() { return std::make_unique<Server>(options_, clock_); }
  void stop() {
    client_.reset();
    server_.reset();
  }
  // The next server finds what a crash would leave now. For few changes: the files are copied, and
  // none may be compacted meanwhile.
  void crash() {
    const std::string left = options_.dir + ".left";
    copy_files(options_.dir, left);
    stop();
    std::filesystem::remove_all(options_.dir);
    std::filesystem::rename(left, options_.dir);
  }

  // By one client for all, until the next start.
  void expect(std::initializer_list<std::string_view> words, const std::string& reply) {
    EXPECT_EQ(client_->ask(resp(words), reply), reply) << *words.begin();
  }
  static std::string line(TestClient& client) { return client.receive_until("\r\n"); }
  std::string info() {
    client_->send(resp({"INFO", "persistence"}));
    return client_->receive(std::stoul(line(*client_).substr(1)) + 2);
  }
  // "none": there is no such field.
  std::string info(const std::string& field) {
    const std::string text = info();
    const size_t begin = text.find(field + ":");
    if (begin == std::string::npos) return "none";
    const size_t value = begin + field.size() + 1;
    return text.substr(value, text.find('\r', value) - value);
  }
  std::string snapshot_path() const { return options_.dir + "/" + options_.dbfilename; }
  void wait_for_saves(uint64_t saves) {
    const SaveJob& job = server_->state().saves;
    while (job.times() < saves || job.in_progress()) std::this_thread::yield();
  }
  // Two keys, by the save point that they are enough for.
  void save_by_a_point() {
    expect({"CONFIG", "SET", "save", "10 2"}, "+OK\r\n");
    expect({"MSET", "a", "1", "b", "2"}, "+OK\r\n");
    clock_.advance(11'000);
    wait_for_saves(1);
    EXPECT_EQ(RdbFile(snapshot_path()).items(), 2u);
  }

  ManualClock clock_{1'700'000'000'000};
  FaultyFiles files_{3};
  net::ServerOptions options_;
  std::unique_ptr<Server> server_;
  std::unique_ptr<TestClient> client_;
};

}  // namespace isotherm
