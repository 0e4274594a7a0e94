#include "net/loop/aside.h"

#include <algorithm>
#include <utility>

namespace isotherm::net {

bool Asides::has_room(size_t bytes, Batch::Row rows) const {
  size_t waiting = 0;
  for (const auto& aside : all_) {
    bytes += aside->input.capacity;
    if (aside->turn == nullptr) continue;
    ++waiting;
    rows += aside->end_row - aside->first_row;
  }
  return waiting < most && bytes <= most_bytes && rows <= most_rows;
}

size_t Asides::input_memory() const {
  size_t bytes = 0;
  for (const auto& aside : all_) bytes += aside->input.capacity;
  return bytes;
}

size_t Asides::output_memory() const {
  size_t bytes = 0;
  for (const auto& aside : all_) bytes += aside->output.memory();
  return bytes;
}

size_t Asides::unsent() const {
  size_t bytes = 0;
  for (const auto& aside : all_) bytes += aside->output.size();
  return bytes;
}

bool Asides::any_cut() const {
  return std::any_of(all_.begin(), all_.end(),
                     [](const auto& one) { return one->output.is_cut(); });
}

Aside* Asides::of(const Turn& turn) const {
  for (const auto& aside : all_) {
    if (aside->turn == &turn) return aside.get();
  }
  return nullptr;
}

void Asides::answered(Aside& aside) {
  aside.turn = nullptr;
  aside.owed.reset();
  if (aside.input) pool_.give(std::move(aside.input));
}

void Asides::forget(const Turn& turn) {
  std::erase_if(all_, [&](const auto& one) {
    if (one->turn != nullptr && one->turn != &turn) return false;
    answered(*one);
    return true;
  });
}

void Asides::let_go(Output& output) {
  size_t gone = 0;
  for (; gone < all_.size() && all_[gone]->turn == nullptr; ++gone) {
    output.take_over(all_[gone]->output);
  }
  all_.erase(all_.begin(), all_.begin() + static_cast<ptrdiff_t>(gone));
}

const WaitingKeys& Asides::waiting_keys() {
  keys_.clear();
  for (const auto& aside : all_) {
    if (aside->turn == nullptr) continue;
    const Batch& batch = aside->turn->batch;
    for (Batch::Row row = aside->first_row; row < aside->end_row; ++row) {
      if (!batch.answered(row)) keys_.insert(batch.columns().key[row]);
    }
  }
  return keys_;
}

void Asides::clear() {
  for (const auto& aside : all_) answered(*aside);
  all_.clear();
}

}  // namespace isotherm::net
