// Pile: an object for tests: byte strings one upon the other.
//
// Threads. As an Object; `there_are` counts all that live.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "isotherm/object.h"

namespace isotherm {

class Pile final : public Object {
 public:
  Pile() { ++piles_; }
  ~Pile() override {
    --piles_;
    alive_ = 0;
  }

  ValueType type() const override { return ValueType::list; }
  bool empty() const override { return parts_.empty(); }
  uint64_t memory() const override { return sizeof(Pile) + bytes_; }
  std::unique_ptr<Object> copy() const override {
    auto copy = std::make_unique<Pile>();
    for (const std::string& part : parts_) copy->push(part);
    return copy;
  }
  std::string_view encoding() const override { return "pile"; }

  void push(std::string_view part) {
    parts_.emplace_back(part);
    bytes_ += sizeof(std::string) + part.size();
  }
  void pop() {
    bytes_ -= sizeof(std::string) + parts_.back().size();
    parts_.pop_back();
  }
  const std::vector<std::string>& parts() const { return parts_; }
  // With a comma behind each.
  std::string text() const {
    std::string text;
    for (const std::string& part : parts_) text.append(part).append(1, ',');
    return text;
  }
  // Of any object, which is one that lives.
  static const Pile& of(const Object& object) {
    const auto& pile = static_cast<const Pile&>(object);
    if (pile.alive_ != is_alive) abort();
    return pile;
  }
  static Pile& of(Object& object) { return const_cast<Pile&>(of(std::as_const(object))); }
  static std::unique_ptr<Object> make() { return std::make_unique<Pile>(); }
  static int64_t there_are() { return piles_; }

 private:
  static constexpr uint64_t is_alive = 0x5EED'0F'1157;
  static inline std::atomic<int64_t> piles_{0};

  volatile uint64_t alive_ = is_alive;
  std::vector<std::string> parts_;
  uint64_t bytes_ = 0;
};

// Functions; a context is a std::string that gets what does not fit a reply.
namespace pile {

inline bool push_all(Object& object, ObjectCall& call) {
  Pile& pile = Pile::of(object);
  for (const std::string_view part : call.arguments) pile.push(part);
  call.number = static_cast<int64_t>(pile.parts().size());
  return !call.arguments.empty();
}
inline bool pop_one(Object& object, ObjectCall& call) {
  Pile& pile = Pile::of(object);
  if (call.context != nullptr) *static_cast<std::string*>(call.context) = pile.parts().back();
  pile.pop();
  call.number = static_cast<int64_t>(pile.parts().size());
  return true;
}
// Puts the number behind the one on the top.
inline bool count_on(Object& object, ObjectCall& call) {
  Pile& pile = Pile::of(object);
  call.number = pile.parts().empty() ? 1 : std::stoll(pile.parts().back()) + 1;
  pile.push(std::to_string(call.number));
  return true;
}
inline bool complain(Object& /*object*/, ObjectCall& call) {
  call.status = Status::not_an_integer;
  return false;
}
inline void tell_size(const Object& object, ObjectCall& call) {
  call.number = static_cast<int64_t>(Pile::of(object).parts().size());
}
inline void tell_text(const Object& object, ObjectCall& call) {
  tell_size(object, call);
  *static_cast<std::string*>(call.context) = Pile::of(object).text();
}

inline constexpr ObjectFunction push{
    .type = ValueType::list, .change = push_all, .make = Pile::make, .grows = true};
inline constexpr ObjectFunction push_there{
    .type = ValueType::list, .change = push_all, .grows = true};
inline constexpr ObjectFunction pop{.type = ValueType::list, .change = pop_one};
inline constexpr ObjectFunction count{
    .type = ValueType::list, .change = count_on, .make = Pile::make, .grows = true};
inline constexpr ObjectFunction refuse{
    .type = ValueType::list, .change = complain, .make = Pile::make};
inline constexpr ObjectFunction size{.type = ValueType::list, .read = tell_size};
inline constexpr ObjectFunction text{.type = ValueType::list, .read = tell_text};
// Of another type than a pile has.
inline constexpr ObjectFunction other{.type = ValueType::hash, .read = tell_size};

}  // namespace pile
}  // namespace isotherm
