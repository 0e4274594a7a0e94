// FakeStreams: the queues of the fake device and the order in which their operations run.
//
// A stream is a queue; nothing in it runs before somebody waits. Then the next operation is drawn
// from the heads of all streams that need not wait, until what is wanted has happened: so each
// stream keeps its order, a wait keeps its own, and everything else is left to the seed.
//
// An event is a mark in a stream. To record it puts a new mark there; a wait, and a question, is
// about the mark that was recorded last before it. An event that was never recorded has happened.
// A wait can only be for a mark that is already queued, so the heads can never all wait, those of
// all devices of a host together: a wait may be for another one's mark.
//
// Threads. One at a time.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "fake_device/fake_random.h"

namespace isotherm {

struct FakeOperation {
  std::function<void()> run;          // null: nothing to do
  std::shared_ptr<const bool> needs;  // must be true first, if not null
};

struct FakeStream {
  std::deque<FakeOperation> queue;
};

struct FakeEvent {
  std::shared_ptr<bool> happened;  // the last mark; null: never recorded
};

class FakeStreams {
 public:
  explicit FakeStreams(FakeRandom& random) : random_(random) {}

  FakeStream* create_stream();
  // What is in the queue is forgotten.
  void destroy_stream(FakeStream* stream);
  FakeEvent* create_event();
  void destroy_event(FakeEvent* event);

  bool owns(const FakeStream* stream) const;
  bool owns(const FakeEvent* event) const;

  void record(FakeEvent* event, FakeStream* stream);
  void wait(FakeStream* stream, const FakeEvent* event);
  static bool happened(const FakeEvent* event) {
    return event->happened == nullptr || *event->happened;
  }

  // Runs one operation of any stream; false if there is none, or all wait.
  bool step();
  // Forgets all operations; events that wait in queues never happen.
  void clear();

 private:
  FakeRandom& random_;
  std::vector<std::unique_ptr<FakeStream>> streams_;
  std::vector<std::unique_ptr<FakeEvent>> events_;
  std::vector<FakeStream*> heads_;
};

}  // namespace isotherm
