#include "net/slow_log.h"

#include <algorithm>
#include <utility>

namespace isotherm::net {

size_t SlowCommand::bytes() const {
  size_t sum = sizeof *this + peer_address.size() + client_name.size();
  for (const std::string& word : words) sum += sizeof(std::string) + word.size();
  return sum;
}

std::vector<std::string> SlowLog::shorten(std::span<const std::string_view> words) {
  const bool all = words.size() <= most_words;
  const size_t shown = all ? words.size() : most_words - 1;
  std::vector<std::string> kept;
  kept.reserve(std::min(words.size(), most_words));
  for (const std::string_view word : words.first(shown)) {
    std::string& text = kept.emplace_back(word.substr(0, most_word_bytes));
    if (word.size() <= most_word_bytes) continue;
    text += "... (" + std::to_string(word.size() - most_word_bytes) + " more bytes)";
  }
  if (!all) kept.push_back("... (" + std::to_string(words.size() - shown) + " more arguments)");
  return kept;
}

void SlowLog::add(SlowCommand command) {
  const std::lock_guard guard(mutex_);
  command.id = next_id_;
  const size_t bytes = command.bytes();
  commands_.push_back(std::move(command));
  ++next_id_;
  bytes_ += bytes;
  drop_oldest();
}

std::vector<SlowCommand> SlowLog::newest(size_t count) const {
  const std::lock_guard guard(mutex_);
  const size_t taken = std::min(count, commands_.size());
  return {commands_.rbegin(), commands_.rbegin() + static_cast<ptrdiff_t>(taken)};
}

size_t SlowLog::size() const {
  const std::lock_guard guard(mutex_);
  return commands_.size();
}

void SlowLog::clear() {
  const std::lock_guard guard(mutex_);
  commands_.clear();
  bytes_ = 0;
}

uint64_t SlowLog::most() const {
  const std::lock_guard guard(mutex_);
  return most_;
}

void SlowLog::set_most(uint64_t most) {
  const std::lock_guard guard(mutex_);
  most_ = most;
  drop_oldest();
}

void SlowLog::drop_oldest() {
  while (!commands_.empty() && (commands_.size() > most_ || bytes_ > most_bytes)) {
    bytes_ -= commands_.front().bytes();
    commands_.pop_front();
  }
}

}  // namespace isotherm::net
