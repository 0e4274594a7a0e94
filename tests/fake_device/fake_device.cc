#include "fake_device/fake_device.h"

#include <cxxabi.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <new>
#include <utility>

#include "base/memory_node.h"

namespace isotherm {
namespace {

constexpr uint64_t pinned_alignment = 256;

// The device of the calling thread; compared, never followed.
thread_local const FakeDevice* entered = nullptr;

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

FakeDevice::FakeDevice(uint64_t seed, uint64_t memory_bytes, std::shared_ptr<FakeHost> host)
    : host_(std::move(host)),
      random_(seed),
      memory_(memory_bytes, [this](std::string error) { report(std::move(error)); }),
      streams_(random_),
      grid_(memory_, random_) {
  const Lock lock(host_->mutex);
  host_->devices.push_back(this);
}

FakeDevice::~FakeDevice() {
  {
    const Lock lock(host_->mutex);
    std::erase(host_->devices, this);
    const FakeMemory::Open open(memory_);
    memory_.check_all();
  }
  if (errors_.empty()) return;
  for (const std::string& error : errors_) std::fprintf(stderr, "fake device: %s\n", error.c_str());
  std::abort();
}

FakeDevice::Keep::Keep() : device_(entered) {}
FakeDevice::Keep::~Keep() { entered = device_; }

bool FakeDevice::enter() {
  entered = this;
  return !lost();
}

bool FakeDevice::connect(FakeDevice& other) {
  const Lock lock(host_->mutex);
  if (lost_ || !may_connect_) return false;
  if (std::find(open_to_kernels_.begin(), open_to_kernels_.end(), &other.memory_) ==
      open_to_kernels_.end()) {
    open_to_kernels_.push_back(&other.memory_);
  }
  return true;
}

void FakeDevice::forbid_connections() {
  const Lock lock(host_->mutex);
  may_connect_ = false;
}

void FakeDevice::check_entered(const char* what) {
  if (host_->devices.size() < 2 || entered == this) return;
  report(std::string(what) + " while the thread has entered another device");
}

void* FakeDevice::allocate(uint64_t bytes) {
  const Lock lock(host_->mutex);
  check_entered("allocation");
  return !lost_ && spend(allocations_left_) ? memory_.allocate(bytes) : nullptr;
}

void FakeDevice::release(void* at, uint64_t bytes) {
  const Lock lock(host_->mutex);
  memory_.release(at, bytes);
}

void* FakeDevice::allocate_pinned(uint64_t bytes) {
  const Lock lock(host_->mutex);
  if (lost_ || !spend(allocations_left_)) return nullptr;
  const MemoryNodeScope near(memory_node_);
  void* at = ::operator new (bytes, std::align_val_t{pinned_alignment}, std::nothrow);
  if (at != nullptr) pinned_[static_cast<const char*>(at)] = bytes;
  return at;
}

bool FakeDevice::is_pinned(const void* at, uint64_t bytes) const {
  const Lock lock(host_->mutex);
  const auto* first = static_cast<const char*>(at);
  const auto behind = pinned_.upper_bound(first);
  if (bytes == 0 || behind == pinned_.begin()) return false;
  const auto& [begin, its] = *std::prev(behind);
  return first + bytes <= begin + its;
}

void FakeDevice::release_pinned(void* at, uint64_t /*bytes*/) {
  const Lock lock(host_->mutex);
  pinned_.erase(static_cast<const char*>(at));
  ::operator delete (at, std::align_val_t{pinned_alignment});
}

bool FakeDevice::pin(void* at, uint64_t bytes) {
  const Lock lock(host_->mutex);
  if (lost_ || !spend(allocations_left_)) return false;
  pinned_[static_cast<const char*>(at)] = bytes;
  return true;
}

void FakeDevice::unpin(void* at) {
  const Lock lock(host_->mutex);
  pinned_.erase(static_cast<const char*>(at));
}

uint64_t FakeDevice::allocated_bytes() const {
  const Lock lock(host_->mutex);
  return memory_.used();
}

bool FakeDevice::owns(const void* at) const {
  const Lock lock(host_->mutex);
  return memory_.allocated(at, 1);
}

uint64_t FakeDevice::available() const {
  const Lock lock(host_->mutex);
  return memory_.left();
}

FakeDevice::Stream FakeDevice::create_stream() {
  const Lock lock(host_->mutex);
  check_entered("a new stream");
  return streams_.create_stream();
}

void FakeDevice::destroy_stream(Stream stream) {
  synchronize(stream);
  const Lock lock(host_->mutex);
  streams_.destroy_stream(stream);
}

FakeDevice::Event FakeDevice::create_event() {
  const Lock lock(host_->mutex);
  check_entered("a new event");
  return streams_.create_event();
}

void FakeDevice::destroy_event(Event event) {
  const Lock lock(host_->mutex);
  streams_.destroy_event(event);
}

bool FakeDevice::record(Event event, Stream stream) {
  const Lock lock(host_->mutex);
  if (lost_) return false;
  if (!streams_.owns(event) || !streams_.owns(stream)) {
    report("an event recorded in a stream of another device");
    return false;
  }
  streams_.record(event, stream);
  return true;
}

bool FakeDevice::wait(Stream stream, Event event) {
  const Lock lock(host_->mutex);
  if (lost_) return false;
  streams_.wait(stream, event);
  return true;
}

bool FakeDevice::done(Event event) {
  const Lock lock(host_->mutex);
  let_time_pass();
  return !lost_ && FakeStreams::happened(event);
}

bool FakeDevice::pause() {
  const Lock lock(host_->mutex);
  let_time_pass();
  return !lost_;
}

// While somebody asks nothing happens, or some operations run.
void FakeDevice::let_time_pass() {
  const FakeHost::Turn turn(*host_);
  for (uint32_t steps = random_.below(4); steps > 0 && step(); --steps) {
  }
}

bool FakeDevice::synchronize(Event event) {
  const Lock lock(host_->mutex);
  ++waits_;
  return run_until([&] { return FakeStreams::happened(event); });
}

bool FakeDevice::synchronize(Stream stream) {
  const Lock lock(host_->mutex);
  ++waits_;
  return run_until([&] { return stream->queue.empty(); });
}

template <class Reached>
bool FakeDevice::run_until(Reached reached) {
  const FakeHost::Turn turn(*host_);
  while (!lost_ && !reached()) {
    // An event whose record was forgotten never happens.
    if (!step()) return false;
  }
  return !lost_;
}

// Runs one operation of any device of the host; false if none can run.
bool FakeDevice::step() {
  const std::vector<FakeDevice*>& devices = host_->devices;
  const auto count = static_cast<uint32_t>(devices.size());
  const uint32_t first = count > 1 ? host_->random.below(count) : 0;
  for (uint32_t i = 0; i < count; ++i) {
    if (devices[(first + i) % count]->step_own()) return true;
  }
  return false;
}

bool FakeDevice::step_own() {
  if (operations_left_ == 0) lose_now();
  if (lost_) return false;
  const bool ran = streams_.step();
  if (ran) spend(operations_left_);
  return ran;
}

// Of its memory alone what runs may touch.
FakeOperation FakeDevice::operation(std::function<void()> run) {
  return {[this, run = std::move(run)] {
            host_->open_only(open_to_kernels_);
            run();
          },
          nullptr};
}

bool FakeDevice::enqueue(Stream stream, std::function<void()> run) {
  const Lock lock(host_->mutex);
  if (lost_) return false;
  if (!streams_.owns(stream)) {
    report("an operation in a stream of another device");
    return false;
  }
  stream->queue.push_back(operation(std::move(run)));
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

bool FakeDevice::copy_to(FakeDevice& other, Stream stream, void* to, const void* from,
                         uint64_t bytes) {
  if (other.lost()) return false;
  if (&other == this) return copy(stream, to, from, bytes);
  return enqueue(stream, [=, this, &other] {
    // Losing it later is the other device's failure, not this one's.
    if (other.lost_) return;
    if (!check_range("copy_to", from, bytes) || !other.check_range("copy_to", to, bytes)) return;
    host_->open_only({&memory_, &other.memory_});
    std::memcpy(to, from, bytes);
  });
}

bool FakeDevice::enqueue_launch(Stream stream, FakeLaunch launch) {
  {
    const Lock lock(host_->mutex);
    check_entered("launch");
    if (launch.blocks == 0 || launch.threads == 0 || launch.threads > FakeGrid::max_threads) {
      report("launch of " + readable(launch.name) + " with " + std::to_string(launch.blocks) +
             " blocks of " + std::to_string(launch.threads) + " threads");
    }
    if (lost_ || !spend(launches_left_)) return false;
    ++launches_;
  }
  return enqueue(stream,
                 [this, stream, launch = std::move(launch)] { run_launch(stream, launch); });
}

void FakeDevice::run_launch(Stream stream, const FakeLaunch& launch) {
  const std::string error = [&] {
    const FakeFrames::Unseen unseen(!frames_.look_at(launch.name));
    return grid_.run(launch);
  }();
  if (!error.empty()) return report(readable(launch.name) + ", " + error);
  memory_.check_gaps();
  if (lost_ || launch.ended == nullptr || launch.ended(launch.kernel.get(), launch.blocks)) return;
  stream->queue.push_front(operation([this, stream, launch] { run_launch(stream, launch); }));
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
  const Lock lock(host_->mutex);
  allocations_left_ = n;
}

void FakeDevice::fail_launches_after(uint64_t n) {
  const Lock lock(host_->mutex);
  launches_left_ = n;
}

void FakeDevice::lose_after(uint64_t n) {
  const Lock lock(host_->mutex);
  operations_left_ = n;
}

void FakeDevice::lose() {
  const Lock lock(host_->mutex);
  lose_now();
}

// May be called by an operation that runs: its queue, and what it is made of, live on elsewhere.
void FakeDevice::lose_now() {
  if (std::exchange(lost_, true)) return;
  streams_.clear();
}

uint64_t FakeDevice::launches() const {
  const Lock lock(host_->mutex);
  return launches_;
}

uint64_t FakeDevice::waits() const {
  const Lock lock(host_->mutex);
  return waits_;
}

bool FakeDevice::lost() const {
  const Lock lock(host_->mutex);
  return lost_;
}

void FakeDevice::recover() {
  const Lock lock(host_->mutex);
  if (lost_) {
    const FakeMemory::Open open(memory_);
    memory_.scramble();
  }
  lost_ = false;
  allocations_left_ = launches_left_ = operations_left_ = never;
}

std::vector<std::string> FakeDevice::take_errors() {
  const Lock lock(host_->mutex);
  const FakeMemory::Open open(memory_);
  memory_.check_all();
  return std::exchange(errors_, {});
}

}  // namespace isotherm
