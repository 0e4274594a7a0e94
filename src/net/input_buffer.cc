#include "net/input_buffer.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace isotherm::net {

void InputBuffer::make_room(size_t wanted) {
  // Smaller reads are not worth their system call.
  constexpr size_t least_room = 4 << 10;
  if (begin_ == end_) {
    release();
    buffer_ = pool_.take();
    return;
  }
  const size_t held = end_ - begin_;
  // A large buffer is filled before it is left: else each receive would copy all that is there.
  if (buffer_.capacity >= trusted_bytes && buffer_.capacity - end_ >= least_room) return;
  const size_t allowed = std::max(trusted_bytes, 4 * held);
  const size_t needed = wanted > held ? std::min(wanted, allowed) : held + least_room;
  if (begin_ + needed <= buffer_.capacity) return;
  if (needed <= buffer_.capacity) {
    std::memmove(buffer_.bytes.get(), buffer_.bytes.get() + begin_, held);
    begin_ = 0;
    end_ = held;
  } else {
    pool_.give(move_to(pool_.take(std::max(needed, 2 * held))));
  }
}

Buffer InputBuffer::leave() {
  return move_to(begin_ == end_ ? Buffer{} : pool_.take(end_ - begin_));
}

Buffer InputBuffer::move_to(Buffer target) {
  const std::string_view held = unread();
  if (!held.empty()) std::memcpy(target.bytes.get(), held.data(), held.size());
  end_ = held.size();
  begin_ = 0;
  return std::exchange(buffer_, std::move(target));
}

}  // namespace isotherm::net
