#include "fake_device/fake_warp.h"

#include <cstdio>
#include <utility>

namespace isotherm {
namespace {

const char* name(FakeCollective collective) {
  switch (collective) {
    case FakeCollective::ballot:
      return "ballot";
    case FakeCollective::shuffle:
      return "shuffle";
    case FakeCollective::match:
      return "match";
    case FakeCollective::sync_warp:
      break;
  }
  return "sync_warp";
}

constexpr uint32_t bit(uint32_t lane) { return uint32_t{1} << lane; }

// A call as a reader of the kernel knows it.
std::string call(FakeCollective collective, uint32_t mask) {
  char text[40];
  std::snprintf(text, sizeof text, "%s(%#x)", name(collective), mask);
  return text;
}

std::string hex(uint32_t mask) {
  char text[16];
  std::snprintf(text, sizeof text, "%#x", mask);
  return text;
}

}  // namespace

void FakeWarp::reset(uint32_t exist) {
  exist_ = exist;
  ended_ = 0;
  at_block_ = 0;
  open_ = 0;
  error_.clear();
}

uint32_t FakeWarp::arrive(uint32_t lane, const FakeArrival& arrival) {
  if (!check(lane, arrival)) return 0;
  Meeting& meeting = join(lane, arrival);
  return meeting.arrived == meeting.mask ? complete(meeting) : 0;
}

bool FakeWarp::check(uint32_t lane, const FakeArrival& arrival) {
  const uint32_t mask = arrival.mask;
  const auto wrong = [&](const std::string& what) {
    return fail(call(arrival.collective, mask) + " " + what);
  };
  if ((mask & bit(lane)) == 0) return wrong("by a lane that is not in the mask");
  if ((mask & ~exist_) != 0) return wrong("names lanes that the block does not have");
  if ((mask & ended_) != 0) {
    return wrong("waits for lanes " + hex(mask & ended_) + ", which have returned");
  }
  if ((mask & at_block_) != 0) {
    return wrong("waits for lanes " + hex(mask & at_block_) + ", which wait at sync_block");
  }
  if (arrival.collective == FakeCollective::shuffle &&
      (arrival.source >= lanes || (mask & bit(arrival.source)) == 0)) {
    return wrong("from lane " + std::to_string(arrival.source) + ", which is not in the mask");
  }
  for (uint32_t i = 0; i < open_; ++i) {
    const Meeting& other = meetings_[i];
    if (other.collective == arrival.collective && other.mask == mask) continue;
    if ((other.mask & bit(lane)) != 0 && (other.arrived & mask) != 0) {
      return wrong("waits for lanes " + hex(other.arrived & mask) + ", which wait for it at " +
                   call(other.collective, other.mask));
    }
  }
  return true;
}

bool FakeWarp::check_nobody_waits_for(uint32_t lane, const char* there) {
  for (uint32_t i = 0; i < open_; ++i) {
    const Meeting& other = meetings_[i];
    if ((other.mask & bit(lane)) == 0) continue;
    return fail(std::string(there) + " while lanes " + hex(other.arrived) + " wait for it at " +
                call(other.collective, other.mask));
  }
  return true;
}

bool FakeWarp::fail(std::string what) {
  error_ = std::move(what);
  return false;
}

FakeWarp::Meeting& FakeWarp::join(uint32_t lane, const FakeArrival& arrival) {
  arrivals_[lane] = arrival;
  uint32_t i = 0;
  while (i < open_ &&
         (meetings_[i].collective != arrival.collective || meetings_[i].mask != arrival.mask)) {
    ++i;
  }
  // Every open meeting holds a lane of its own, so there is room.
  if (i == open_) meetings_[open_++] = {arrival.collective, arrival.mask, 0};
  meetings_[i].arrived |= bit(lane);
  return meetings_[i];
}

uint32_t FakeWarp::complete(Meeting& meeting) {
  const uint32_t done = meeting.mask;
  // All lanes get the same.
  const uint64_t votes =
      meeting.collective == FakeCollective::ballot ? lanes_with(1, meeting.mask) : 0;
  for (uint32_t rest = done; rest != 0; rest &= rest - 1) {
    const auto lane = static_cast<uint32_t>(__builtin_ctz(rest));
    uint64_t& result = results_[lane];
    switch (meeting.collective) {
      case FakeCollective::shuffle:
        result = arrivals_[arrivals_[lane].source].value;
        break;
      case FakeCollective::match:
        result = lanes_with(arrivals_[lane].value, meeting.mask);
        break;
      case FakeCollective::ballot:
      case FakeCollective::sync_warp:
        result = votes;
        break;
    }
  }
  meeting = meetings_[--open_];
  return done;
}

// Those of `mask` that brought `value`.
uint32_t FakeWarp::lanes_with(uint64_t value, uint32_t mask) const {
  uint32_t equal = 0;
  for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
    const auto lane = static_cast<uint32_t>(__builtin_ctz(rest));
    if (arrivals_[lane].value == value) equal |= bit(lane);
  }
  return equal;
}

void FakeWarp::arrive_at_block(uint32_t lane) {
  if (check_nobody_waits_for(lane, "sync_block")) at_block_ |= bit(lane);
}

void FakeWarp::end(uint32_t lane) {
  if (check_nobody_waits_for(lane, "returns")) ended_ |= bit(lane);
}

std::string FakeWarp::where(uint32_t lane) const {
  if ((at_block_ & bit(lane)) != 0) return "sync_block";
  for (uint32_t i = 0; i < open_; ++i) {
    if ((meetings_[i].arrived & bit(lane)) != 0) {
      return call(meetings_[i].collective, meetings_[i].mask);
    }
  }
  return {};
}

}  // namespace isotherm
