#include "device/fake_device.h"

#include <cxxabi.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace isotherm {
namespace {

constexpr uint64_t pinned_alignment = 256;

// Takes one of what is left; false if there is none.
bool spend(uint64_t& left) {
  if (left == 0) return false;
  if (left != FakeDevice::never) --left;
  return true;
}

std::string readable(const std::string& type) {
  int status = 0;
  char* name = abi::__cxa_demangle(type.c_str(), nullptr, nullptr, &status);
  std::string text = status == 0 ? name : type;
  std::free(name);
  return text;
}

}  // namespace

FakeDevice::FakeDevice(uint64_t seed, uint64_t memory_bytes)
    : random_(seed),
      memory_(memory_bytes, [this](std::string error) { report(std::move(error)); }),
      streams_(random_),
      grid_(memory_, random_) {}

FakeDevice::~FakeDevice() {
  {
    const FakeMemory::Open open(memory_);
    memory_.check_all();
  }
  if (errors_.empty()) return;
  for (const std::string& error : errors_) std::fprintf(stderr, "fake device: %s\n", error.c_str());
  std::abort();
}

void* FakeDevice::allocate(uint64_t bytes) {
  const Lock lock(mutex_);
  return !lost_ && spend(allocations_left_) ? memory_.allocate(bytes) : nullptr;
}

void FakeDevice::release(void* at, uint64_t bytes) {
  const Lock lock(mutex_);
  memory_.release(at, bytes);
}

void* FakeDevice::allocate_pinned(uint64_t bytes) {
  const Lock lock(mutex_);
  if (lost_ || !spend(allocations_left_)) return nullptr;
  return ::operator new (bytes, std::align_val_t{pinned_alignment}, std::nothrow);
}

void FakeDevice::release_pinned(void* at, uint64_t /*bytes*/) {
  ::operator delete (at, std::align_val_t{pinned_alignment});
}

uint64_t FakeDevice::allocated_bytes() const {
  const Lock lock(mutex_);
  return memory_.used();
}

FakeDevice::Stream FakeDevice::create_stream() {
  const Lock lock(mutex_);
  return streams_.create_stream();
}

void FakeDevice::destroy_stream(Stream stream) {
  synchronize(stream);
  const Lock lock(mutex_);
  streams_.destroy_stream(stream);
}

FakeDevice::Event FakeDevice::create_event() {
  const Lock lock(mutex_);
  return streams_.create_event();
}

void FakeDevice::destroy_event(Event event) {
  const Lock lock(mutex_);
  streams_.destroy_event(event);
}

bool FakeDevice::record(Event event, Stream stream) {
  const Lock lock(mutex_);
  if (lost_) return false;
  streams_.record(event, stream);
  return true;
}

bool FakeDevice::wait(Stream stream, Event event) {
  const Lock lock(mutex_);
  if (lost_) return false;
  streams_.wait(stream, event);
  return true;
}

bool FakeDevice::done(Event event) {
  const Lock lock(mutex_);
  let_time_pass();
  return !lost_ && FakeStreams::happened(event);
}

bool FakeDevice::pause() {
  const Lock lock(mutex_);
  let_time_pass();
  return !lost_;
}

// While somebody asks nothing happens, or some operations run.
void FakeDevice::let_time_pass() {
  const FakeMemory::Open open(memory_);
  for (uint32_t steps = random_.below(4); steps > 0 && step(); --steps) {
  }
}

bool FakeDevice::synchronize(Event event) {
  const Lock lock(mutex_);
  return run_until([&] { return FakeStreams::happened(event); });
}

bool FakeDevice::synchronize(Stream stream) {
  const Lock lock(mutex_);
  return run_until([&] { return stream->queue.empty(); });
}

template <class Reached>
bool FakeDevice::run_until(Reached reached) {
  const FakeMemory::Open open(memory_);
  while (!lost_ && !reached()) {
    // An event whose record was forgotten never happens.
    if (!step()) return false;
  }
  return !lost_;
}

// Runs one operation; false if there is none, or no device. The memory is open.
bool FakeDevice::step() {
  if (operations_left_ == 0) lose_now();
  if (lost_) return false;
  const bool ran = streams_.step();
  if (ran) spend(operations_left_);
  return ran;
}

bool FakeDevice::enqueue(Stream stream, std::function<void()> run) {
  const Lock lock(mutex_);
  if (lost_) return false;
  stream->queue.push_back({std::move(run), nullptr});
  return true;
}

bool FakeDevice::clear(Stream stream, void* at, uint64_t bytes) {
  return enqueue(stream, [=, this] {
    if (check_range("clear", at, bytes)) std::memset(at, 0, bytes);
  });
}

bool FakeDevice::to_device(Stream stream, void* device, const void* host, uint64_t bytes) {
  return enqueue(stream, [=, this] {
    if (check_range("to_device", device, bytes)) std::memcpy(device, host, bytes);
  });
}

bool FakeDevice::to_host(Stream stream, void* host, const void* device, uint64_t bytes) {
  return enqueue(stream, [=, this] {
    if (check_range("to_host", device, bytes)) std::memcpy(host, device, bytes);
  });
}

bool FakeDevice::copy(Stream stream, void* to, const void* from, uint64_t bytes) {
  return enqueue(stream, [=, this] {
    const bool both = check_range("copy", to, bytes) && check_range("copy", from, bytes);
    if (both) std::memmove(to, from, bytes);
  });
}

bool FakeDevice::enqueue_launch(Stream stream, FakeLaunch launch) {
  {
    const Lock lock(mutex_);
    if (launch.blocks == 0 || launch.threads == 0 || launch.threads > FakeGrid::max_threads) {
      report("launch of " + readable(launch.name) + " with " + std::to_string(launch.blocks) +
             " blocks of " + std::to_string(launch.threads) + " threads");
    }
    if (lost_ || !spend(launches_left_)) return false;
  }
  return enqueue(stream,
                 [this, stream, launch = std::move(launch)] { run_launch(stream, launch); });
}

void FakeDevice::run_launch(Stream stream, const FakeLaunch& launch) {
  const std::string error = grid_.run(launch);
  if (!error.empty()) return report(readable(launch.name) + ", " + error);
  memory_.check_gaps();
  if (lost_ || launch.ended == nullptr || launch.ended(launch.kernel.get(), launch.blocks)) return;
  stream->queue.push_front({[this, stream, launch] { run_launch(stream, launch); }, nullptr});
}

bool FakeDevice::check_range(const char* what, const void* at, uint64_t bytes) {
  if (bytes == 0) return false;
  if (memory_.allocated(at, bytes)) return true;
  report(std::string(what) + " of " + std::to_string(bytes) +
         " bytes of device memory that is not allocated");
  return false;
}

void FakeDevice::report(std::string error) {
  errors_.push_back(std::move(error));
  lose_now();
}

void FakeDevice::fail_allocations_after(uint64_t n) {
  const Lock lock(mutex_);
  allocations_left_ = n;
}

void FakeDevice::fail_launches_after(uint64_t n) {
  const Lock lock(mutex_);
  launches_left_ = n;
}

void FakeDevice::lose_after(uint64_t n) {
  const Lock lock(mutex_);
  operations_left_ = n;
}

void FakeDevice::lose() {
  const Lock lock(mutex_);
  lose_now();
}

// May be called by an operation that runs: its queue, and what it is made of, live on elsewhere.
void FakeDevice::lose_now() {
  if (std::exchange(lost_, true)) return;
  streams_.clear();
}

bool FakeDevice::lost() const {
  const Lock lock(mutex_);
  return lost_;
}

void FakeDevice::recover() {
  const Lock lock(mutex_);
  if (lost_) {
    const FakeMemory::Open open(memory_);
    memory_.scramble();
  }
  lost_ = false;
  allocations_left_ = launches_left_ = operations_left_ = never;
}

std::vector<std::string> FakeDevice::take_errors() {
  const Lock lock(mutex_);
  const FakeMemory::Open open(memory_);
  memory_.check_all();
  return std::exchange(errors_, {});
}

}  // namespace isotherm
