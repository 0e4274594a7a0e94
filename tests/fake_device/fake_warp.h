// FakeWarp: where up to 32 lanes of a block meet; the rules of collectives, without the switching.
//
// A lane that calls a collective arrives with a mask and waits until every lane of the mask has
// arrived at the same collective with the same mask; then all get their results. Several groups of
// lanes may wait at a time. What a GPU leaves undefined, or where it would wait for ever, is an
// error here, found as soon as it is certain:
//   - a lane outside its own mask; a mask that names lanes which the block does not have
//   - a mask that names a lane which has returned, before or after
//   - two lanes that wait for each other at different places (another collective, another mask, or
//     sync_block)
//   - a shuffle from a lane outside the mask
// A circle of more than two groups shows when no lane of the grid can run
// (fake_device/fake_grid.h).
//
// Threads. One.
#pragma once

#include <cstdint>
#include <string>

namespace isotherm {

enum class FakeCollective : uint8_t { ballot, shuffle, match, sync_warp };

// What a lane brings to a collective.
struct FakeArrival {
  FakeCollective collective = FakeCollective::sync_warp;
  uint32_t mask = 0;
  uint32_t source = 0;  // of a shuffle
  uint64_t value = 0;   // of a ballot 0 or 1
};

class FakeWarp {
 public:
  static constexpr uint32_t lanes = 32;

  // All lanes of `exist` are there and run.
  void reset(uint32_t exist);

  // The lanes whose collective is complete, by a bit each; 0 if `lane` must wait or `error()` is
  // not empty.
  uint32_t arrive(uint32_t lane, const FakeArrival& arrival);
  // Of the last complete collective of the lane.
  uint64_t result(uint32_t lane) const { return results_[lane]; }

  void arrive_at_block(uint32_t lane);
  void leave_block() { at_block_ = 0; }
  void end(uint32_t lane);

  // What was wrong with the last call, or empty.
  const std::string& error() const { return error_; }
  // Where the lane waits, for people; empty if it does not.
  std::string where(uint32_t lane) const;

 private:
  struct Meeting {
    FakeCollective collective;
    uint32_t mask;
    uint32_t arrived;
  };

  bool check(uint32_t lane, const FakeArrival& arrival);
  bool check_nobody_waits_for(uint32_t lane, const char* there);
  bool fail(std::string what);
  Meeting& join(uint32_t lane, const FakeArrival& arrival);
  uint32_t complete(Meeting& meeting);
  uint32_t lanes_with(uint64_t value, uint32_t mask) const;

  uint32_t exist_ = 0;
  uint32_t ended_ = 0;
  uint32_t at_block_ = 0;
  uint32_t open_ = 0;  // meetings
  Meeting meetings_[lanes];
  FakeArrival arrivals_[lanes];
  uint64_t results_[lanes];
  std::string error_;
};

}  // namespace isotherm
