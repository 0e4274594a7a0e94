#include "net/output.h"

#include <algorithm>
#include <charconv>
#include <utility>

namespace isotherm::net {

Output::Output(BufferPool* pool, Engine* engine, bool drops)
    : pool_(pool), engine_(engine), drops_(drops) {
  if (pool_ == nullptr) {
    own_pool_ = std::make_unique<BufferPool>();
    pool_ = own_pool_.get();
  }
}

Output::~Output() { clear(); }

void Output::clear() {
  Piece* const end = pieces_.data() + pieces_.size();
  for (Piece* piece = pieces_.data() + first_; piece != end; ++piece) drop(*piece);
  write_ = room_end_ = nullptr;
  size_ = 0;
  first_ = 0;
  pieces_.clear();
  // A burst of large replies must not leave its list of pieces behind.
  if (pieces_.capacity() > most_kept) [[unlikely]]
    pieces_.shrink_to_fit();
}

// For so many pieces: who has one in hand needs no memory any more.
void Output::make_places(size_t more) {
  if (pieces_.capacity() - pieces_.size() >= more) return;
  pieces_.reserve(std::max(2 * pieces_.capacity(), pieces_.size() + more));
}

bool Output::append_kept(const Reply& reply, std::string_view part) {
  if (drops_) return true;
  make_places(2);
  const uint64_t kept = engine_ != nullptr ? engine_->keep(reply) : 0;
  if (kept == 0) return false;
  Buffer rest;
  if (first_ < pieces_.size()) {
    pieces_.back().end = write_;
    rest = std::move(pieces_.back().chunk);
  }
  char* const value = const_cast<char*>(part.data());
  pieces_.push_back({Buffer(nullptr, reply.size), value, value + part.size(), kept});
  pieces_.push_back({std::move(rest), write_, write_});
  size_ += part.size();
  return true;
}

void Output::append_slow(std::string_view bytes) {
  if (drops_) return;
  if (const size_t fits = room(); fits != 0) {
    std::memcpy(write_, bytes.data(), fits);
    commit(fits);
    bytes.remove_prefix(fits);
  }
  add_piece(bytes.size());
  std::memcpy(write_, bytes.data(), bytes.size());
  commit(bytes.size());
}

void Output::add_piece(size_t bytes) {
  if (copied_ > most_ && !drops_) look_at_bound();
  if (drops_) clear();
  if (first_ < pieces_.size()) pieces_.back().end = write_;
  make_places(1);
  Buffer chunk = pool_->take(bytes);
  copied_ += chunk.capacity;
  write_ = chunk.bytes.get();
  room_end_ = write_ + chunk.capacity;
  pieces_.push_back({std::move(chunk), write_, write_});
}

void Output::look_at_bound() {
  const size_t most = bound_->most(copied_);
  most_ = std::min(most, copied_ + bound_step);
  if (copied_ <= most) return;
  lost_ = std::max<size_t>(size_, 1);
  drops_ = true;
}

void Output::append_unsigned(uint64_t value) {
  char* at = reserve(24);
  commit(static_cast<size_t>(std::to_chars(at, at + 24, value).ptr - at));
}

void Output::take_over(Output& other) {
  lost_ += std::exchange(other.lost_, 0);
  if (other.empty()) return other.clear();
  make_places(other.pieces());
  other.pieces_.back().end = other.write_;
  if (first_ < pieces_.size()) pieces_.back().end = write_;
  for (size_t i = other.first_; i < other.pieces_.size(); ++i) {
    pieces_.push_back(std::move(other.pieces_[i]));
  }
  size_ += other.size_;
  copied_ += std::exchange(other.copied_, 0);
  write_ = other.write_;
  room_end_ = other.room_end_;
  other.pieces_.clear();
  other.first_ = 0;
  other.clear();
}

size_t Output::memory() const {
  size_t bytes = 0;
  for (size_t i = first_; i < pieces_.size(); ++i) bytes += pieces_[i].chunk.capacity;
  return bytes;
}

std::string Output::text() const {
  std::string all;
  for (size_t i = first_; i < pieces_.size(); ++i) all.append(pieces_[i].begin, end_of(i));
  return all;
}

size_t Output::iovecs(std::span<iovec> pieces) const {
  size_t filled = 0;
  for (size_t i = first_; i < pieces_.size() && filled < pieces.size(); ++i) {
    const size_t bytes = static_cast<size_t>(end_of(i) - pieces_[i].begin);
    if (bytes != 0) pieces[filled++] = {pieces_[i].begin, bytes};
  }
  return filled;
}

void Output::consume_pieces(size_t bytes) {
  if (bytes == size_) return clear();
  size_ -= bytes;
  for (;;) {
    Piece& piece = pieces_[first_];
    const size_t unwritten = static_cast<size_t>(end_of(first_) - piece.begin);
    if (bytes < unwritten) {
      piece.begin += bytes;
      break;
    }
    bytes -= unwritten;
    drop(piece);
    ++first_;
  }
  if (first_ >= most_kept && first_ * 2 >= pieces_.size()) {
    pieces_.erase(pieces_.begin(), pieces_.begin() + static_cast<ptrdiff_t>(first_));
    first_ = 0;
  }
}

}  // namespace isotherm::net
