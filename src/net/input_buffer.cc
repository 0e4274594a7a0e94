#include "net/input_buffer.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace isotherm::net {

// Bytes for the request at the front and what comes next; 0: there is room.
size_t InputBuffer::needed(size_t wanted) const {
  // Smaller reads are not worth their system call.
  constexpr size_t least_room = 4 << 10;
  // A large buffer is filled before it is left: else each receive would copy all that is there.
  if (buffer_.capacity >= trusted_bytes && buffer_.capacity - end_ >= least_room) return 0;
  const size_t held = end_ - begin_;
  const size_t allowed = std::max(trusted_bytes, 4 * held);
  const size_t needed = wanted > held ? std::min(wanted, allowed) : held + least_room;
  return begin_ + needed <= buffer_.capacity ? 0 : needed;
}

size_t InputBuffer::next_capacity(size_t wanted, bool fast) const {
  const size_t bytes = begin_ == end_ ? 0 : needed(wanted);
  if (bytes == 0) return buffer_.capacity;
  const size_t least = fast ? std::max(bytes, fast_bytes) : bytes;
  return least <= buffer_.capacity ? buffer_.capacity : std::max(least, 2 * (end_ - begin_));
}

void InputBuffer::make_room(size_t wanted, bool fast) {
  if (begin_ == end_) {
    release();
    buffer_ = pool_.take(first_capacity(fast));
  } else if (const size_t next = next_capacity(wanted, fast); next > buffer_.capacity) {
    pool_.give(move_to(pool_.take(next)));
  } else if (needed(wanted) != 0) {
    const size_t held = end_ - begin_;
    std::memmove(buffer_.bytes.get(), buffer_.bytes.get() + begin_, held);
    begin_ = 0;
    end_ = held;
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
