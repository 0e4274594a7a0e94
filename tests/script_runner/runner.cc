#include "script_runner/runner.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <regex>
#include <set>

namespace isotherm::scripts {
namespace {

struct Pattern {
  std::regex regex;
  std::vector<std::string> names;  // of the groups, in order
};

// ${name=pattern} becomes a group; other groups of a pattern must not capture.
Pattern compile_pattern(std::string_view text, const Variables& variables) {
  Pattern pattern;
  std::string regex;
  for (size_t at = 0; at < text.size();) {
    const size_t open = text.find("${", at);
    regex += text.substr(at, open == text.npos ? open : open - at);
    if (open == text.npos) break;
    const size_t close = text.find('}', open);
    if (close == text.npos) throw ScriptError("${ without }");
    const auto body = text.substr(open + 2, close - open - 2);
    if (const size_t equal = body.find('='); equal != body.npos) {
      pattern.names.emplace_back(body.substr(0, equal));
      regex += "(" + std::string(body.substr(equal + 1)) + ")";
    } else {
      regex += expand(text.substr(open, close - open + 1), variables);
    }
    at = close + 1;
  }
  pattern.regex = std::regex(regex);
  return pattern;
}

class Run {
 public:
  Run(const Script& script, const Target& target) : script_(script), target_(target) {}

  void run() {
    for (step_ = 0; step_ < script_.steps.size() && !ended_; ++step_) {
      perform(script_.steps[step_]);
    }
    for (auto& [name, client] : clients_) check_silence(name, *client);
  }

  int line() const { return script_.steps[std::min(step_, script_.steps.size() - 1)].line; }

 private:
  void perform(const Step& step) {
    switch (step.action) {
      case Action::send:
        return send(step, encode_request(script_.dialect_of(step.connection), expanded(step)));
      case Action::send_raw:
        return send(step, unescape(expanded(step)));
      case Action::expect:
        return expect(step, encode_reply(script_.dialect_of(step.connection), expanded(step)));
      case Action::expect_raw:
        return expect(step, unescape(expanded(step)));
      case Action::expect_any:
        return expect_any();
      case Action::expect_pattern:
        return expect_pattern(step);
      case Action::expect_bulk:
        return expect_bulk(step);
      case Action::expect_closed:
        return expect_closed(step);
      case Action::pipeline_begin:
        return pipeline_begin();
      case Action::pipeline_end:
        return;
      case Action::clock:
        return turn_clock(step);
      case Action::let:
        return let(step);
      case Action::iterate:
        return iterate(step);
      case Action::disconnect:
        clients_.erase(step.connection);
        return;
    }
  }

  std::string expanded(const Step& step) const { return expand(step.text, variables_); }

  Client& client(const std::string& name) {
    auto& slot = clients_[name];
    if (!slot) {
      const bool resp = script_.dialect_of(name) == Dialect::resp;
      const Address& address = resp ? target_.resp : target_.memcached;
      const bool udp = name.starts_with("udp");
      slot = udp ? std::make_unique<Client>(target_.memcached_udp.host, target_.memcached_udp.port,
                                            Client::Over::udp)
                 : std::make_unique<Client>(address.host, address.port);
    }
    return *slot;
  }

  void send(const Step& step, const std::string& bytes) {
    if (in_pipeline_) {
      pipelined_[step.connection] += bytes;
      return;
    }
    // A server may close while it is being written to; the reply it sent before says why.
    client(step.connection).send(bytes, target_.cut);
  }

  // Sends all requests of the block at once, then goes through it for the replies.
  void pipeline_begin() {
    const size_t begin = step_ + 1;
    size_t end = begin;
    while (end < script_.steps.size() && script_.steps[end].action != Action::pipeline_end) ++end;
    if (end == script_.steps.size()) throw ScriptError("pipeline without }");
    const auto is_send = [](Action action) {
      return action == Action::send || action == Action::send_raw;
    };
    in_pipeline_ = true;
    for (step_ = begin; step_ < end; ++step_) {
      if (is_send(script_.steps[step_].action)) perform(script_.steps[step_]);
    }
    in_pipeline_ = false;
    for (auto& [name, bytes] : pipelined_) client(name).send(bytes, target_.cut);
    pipelined_.clear();
    for (step_ = begin; step_ < end; ++step_) {
      if (!is_send(script_.steps[step_].action)) perform(script_.steps[step_]);
    }
  }

  void expect(const Step& step, const std::string& bytes) {
    Client& from = client(step.connection);
    std::string got = from.read(bytes.size());
    if (got == bytes) return;
    got += from.drain();
    throw ScriptError("expected " + printable(bytes) + "\n       got " + printable(got) +
                      (from.closed() ? " and the end of the connection" : ""));
  }

  // A run of `<*` lines: the same replies in any order.
  void expect_any() {
    const Step& first = script_.steps[step_];
    std::vector<std::string> wanted;
    size_t end = step_;
    for (; end < script_.steps.size() && script_.steps[end].action == Action::expect_any; ++end) {
      wanted.push_back(
          encode_reply(script_.dialect_of(first.connection), expanded(script_.steps[end])));
    }
    step_ = end - 1;
    Client& from = client(first.connection);
    std::string pending;
    while (!wanted.empty()) {
      pending += from.read(1);
      const auto found = std::find(wanted.begin(), wanted.end(), pending);
      if (found != wanted.end()) {
        wanted.erase(found);
        pending.clear();
      } else if (!std::any_of(wanted.begin(), wanted.end(),
                              [&](const auto& one) { return one.starts_with(pending); })) {
        throw ScriptError("expected one of " + std::to_string(wanted.size()) + " replies, first " +
                          printable(wanted.front()) + "\n       got " +
                          printable(pending + from.drain()));
      }
    }
  }

  void match(const Step& step, const std::string& got, bool whole) {
    const Pattern pattern = compile_pattern(step.text, variables_);
    std::smatch groups;
    const bool found = whole ? std::regex_match(got, groups, pattern.regex)
                             : std::regex_search(got, groups, pattern.regex);
    if (!found)
      throw ScriptError("expected match of " + step.text + "\n       got " + printable(got));
    for (size_t i = 0; i < pattern.names.size(); ++i) {
      variables_[pattern.names[i]] = groups[i + 1].str();
    }
  }

  void expect_pattern(const Step& step) { match(step, client(step.connection).read_line(), true); }

  void expect_bulk(const Step& step) {
    Client& from = client(step.connection);
    const std::string header = from.read_line();
    if (header.size() < 2 || (header[0] != '$' && header[0] != '=') || header[1] == '-') {
      throw ScriptError("expected a string, got " + printable(header + from.drain()));
    }
    const size_t size = std::stoul(header.substr(1));
    const std::string body = from.read(size);
    if (body.size() != size || from.read(2) != "\r\n") throw ScriptError("a string was cut off");
    match(step, body, false);
  }

  void expect_closed(const Step& step) {
    Client& from = client(step.connection);
    if (!from.wait_closed()) {
      throw ScriptError("expected the end of the connection, got " + printable(from.drain()));
    }
    clients_.erase(step.connection);
  }

  void turn_clock(const Step& step) {
    const std::string text = step.text;
    if (!std::regex_match(text, std::regex(R"(\+\d+ms)"))) throw ScriptError("clock +1500ms");
    ended_ = !target_.advance(std::stoll(text));
  }

  void let(const Step& step) {
    const auto words = split_words(step.text);
    if (words.size() != 3) throw ScriptError("let name seconds|milliseconds +10");
    const int64_t now = target_.now_ms();
    const int64_t base = words[1] == "seconds" ? now / 1000 : now;
    variables_[words[0]] = std::to_string(base + std::stoll(words[2]));
  }

  // A whole SCAN: exactly as many different keys as the first word says.
  void iterate(const Step& step) {
    auto words = split_words(expanded(step));
    const size_t expected = std::stoul(words.at(0));
    words[0] = "SCAN";
    words.insert(words.begin() + 1, "0");
    std::set<std::string> keys;
    do {
      client(step.connection).send(encode_command(words), target_.cut);
      words[1] = read_scan_reply(client(step.connection), keys);
    } while (words[1] != "0");
    if (keys.size() != expected) {
      throw ScriptError("SCAN returned " + std::to_string(keys.size()) + " different keys");
    }
  }

  static std::string read_scan_reply(Client& from, std::set<std::string>& keys) {
    const std::string header = from.read_line();
    if (header != "*2") throw ScriptError("expected *2, got " + printable(header + from.drain()));
    std::string cursor = read_bulk(from);
    if (std::stoull(cursor) > most_exact_double) {
      throw ScriptError("cursor " + cursor + " is too large for clients that keep a double");
    }
    const std::string count = from.read_line();
    if (count.empty() || count[0] != '*') throw ScriptError("expected an array, got " + count);
    for (size_t left = std::stoul(count.substr(1)); left > 0; --left) keys.insert(read_bulk(from));
    return cursor;
  }

  static std::string read_bulk(Client& from) {
    const std::string header = from.read_line();
    if (header.empty() || header[0] != '$') throw ScriptError("expected a string, got " + header);
    std::string body = from.read(std::stoul(header.substr(1)));
    from.read(2);
    return body;
  }

  // Asks one more question: a surplus byte behind the last reply would come before its answer.
  void check_silence(const std::string& name, Client& last) {
    const bool resp = script_.dialect_of(name) == Dialect::resp;
    last.send(resp ? encode_command({"ECHO", "end of script"}) : "version\r\n", Cut::whole);
    const std::string got = last.read_line();
    const bool right =
        resp ? got == "$13" && last.read_line() == "end of script" : got.starts_with("VERSION ");
    if (!right) {
      throw ScriptError("connection " + name + ": surplus bytes or no answer at the end: " +
                        printable(got + last.drain()));
    }
  }

  static constexpr uint64_t most_exact_double = uint64_t{1} << 53;

  const Script& script_;
  const Target& target_;
  Variables variables_;
  std::map<std::string, std::unique_ptr<Client>> clients_;
  std::map<std::string, std::string> pipelined_;
  bool in_pipeline_ = false;
  bool ended_ = false;
  size_t step_ = 0;
};

}  // namespace

std::string run_script(const Script& script, const Target& target) {
  Run run(script, target);
  try {
    run.run();
  } catch (const std::exception& error) {
    return script.name + ".txt:" + std::to_string(run.line()) + ": " + error.what();
  }
  return {};
}

}  // namespace isotherm::scripts
