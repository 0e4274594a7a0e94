#include "fake_device/fake_streams.h"

#include <algorithm>
#include <utility>

namespace isotherm {

FakeStream* FakeStreams::create_stream() {
  return streams_.emplace_back(std::make_unique<FakeStream>()).get();
}

void FakeStreams::destroy_stream(FakeStream* stream) {
  std::erase_if(streams_, [&](const auto& owned) { return owned.get() == stream; });
}

FakeEvent* FakeStreams::create_event() {
  return events_.emplace_back(std::make_unique<FakeEvent>()).get();
}

void FakeStreams::destroy_event(FakeEvent* event) {
  std::erase_if(events_, [&](const auto& owned) { return owned.get() == event; });
}

bool FakeStreams::owns(const FakeStream* stream) const {
  return std::any_of(streams_.begin(), streams_.end(),
                     [&](const auto& owned) { return owned.get() == stream; });
}

bool FakeStreams::owns(const FakeEvent* event) const {
  return std::any_of(events_.begin(), events_.end(),
                     [&](const auto& owned) { return owned.get() == event; });
}

void FakeStreams::record(FakeEvent* event, FakeStream* stream) {
  auto mark = std::make_shared<bool>(false);
  event->happened = mark;
  stream->queue.push_back({[mark] { *mark = true; }, nullptr});
}

void FakeStreams::wait(FakeStream* stream, const FakeEvent* event) {
  if (!happened(event)) stream->queue.push_back({nullptr, event->happened});
}

bool FakeStreams::step() {
  heads_.clear();
  for (const auto& stream : streams_) {
    if (stream->queue.empty()) continue;
    const FakeOperation& head = stream->queue.front();
    if (head.needs == nullptr || *head.needs) heads_.push_back(stream.get());
  }
  if (heads_.empty()) return false;
  FakeStream& stream = *heads_[random_.below(static_cast<uint32_t>(heads_.size()))];
  const FakeOperation operation = std::move(stream.queue.front());
  stream.queue.pop_front();
  if (operation.run) operation.run();
  return true;
}

void FakeStreams::clear() {
  for (const auto& stream : streams_) stream->queue.clear();
}

}  // namespace isotherm
