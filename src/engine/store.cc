#include "isotherm/store.h"

#include <new>
#include <optional>
#include <stdexcept>

#include "base/clock.h"
#include "engine/engine.h"

namespace isotherm {
namespace {

const Clock& system_clock() {
  static const SystemClock clock;
  return clock;
}

// Nobody says when a batch has been cleared, but the one before mostly has been when the next
// comes.
void maintain_before(Batch& batch, Worker& worker) {
  batch.let_go();
  uint64_t bytes = 0;
  if (batch.writes()) {
    const Batch::Columns& columns = batch.columns();
    for (Batch::Row row = 0; row < batch.size(); ++row) bytes += columns.value[row].size();
  }
  worker.maintain_behind(batch.size(), bytes);
}

}  // namespace

Store::Store(const Options& options) : Store(options, system_clock()) {}
Store::Store(const Options& options, const Clock& clock)
    : engine_(std::make_unique<Engine>(options, clock)) {}
Store::~Store() = default;

uint64_t Store::size(uint32_t database) const {
  if (database >= engine_->options().databases) return 0;
  const std::optional<uint64_t> keys = engine_->count(database);
  if (!keys) throw std::runtime_error("the files of the tree cannot be read");
  return *keys;
}
uint64_t Store::memory() const { return engine_->stats().used_memory; }
bool Store::on_gpu() const { return engine_->stats().on_device; }
uint64_t Store::entries_beyond_gpu() const { return engine_->stats().root_table.host_entries; }
uint64_t Store::values_on_gpu() const { return engine_->stats().values.values; }

Handle::Handle(Store& store) : worker_(std::make_unique<Worker>(*store.engine_)) {}
Handle::~Handle() = default;

// Memory that fails is a status as any other, and leaves nothing of the request to the next one.
template <class Attempt>
Status Handle::attempt(Attempt&& attempt) {
  try {
    batch_.select(database_);
    return attempt();
  } catch (const std::bad_alloc&) {
    batch_.clear();
    return Status::out_of_memory;
  }
}

// Runs the one request in batch_; `read` sees the reply before the batch is cleared.
template <class Read>
Status Handle::run_single(Read&& read) {
  worker_->submit(batch_);
  const Reply& reply = batch_.reply(0);
  const Status status = reply.status.load(std::memory_order_acquire);
  read(reply, status);
  const uint64_t bytes = batch_.columns().value[0].size();
  batch_.clear();
  worker_->maintain_behind(1, bytes);
  return status;
}

Status Handle::get(std::string_view key, std::string& value, ItemInfo* info) {
  return attempt([&] {
    if (uint64_t version = 0; worker_->get_at_once(database_, key, value, version)) {
      if (info != nullptr) *info = {version, no_expiry, 0};
      return Status::ok;
    }
    batch_.get(key);
    return run_single([&](const Reply& reply, Status status) {
      if (status != Status::ok) return;
      value.assign(reply.value());
      if (info != nullptr) *info = {reply.version, reply.expiry, reply.flags};
    });
  });
}

Status Handle::put(std::string_view key, std::string_view value, const PutOptions& options,
                   std::string* previous) {
  const uint16_t wanted = previous != nullptr ? option::want_previous : 0;
  return attempt([&] {
    batch_.put(key, value, options.conditions | wanted, options.expiry, options.flags);
    return run_single([&](const Reply& reply, Status) {
      if (previous != nullptr) previous->assign(reply.value());
    });
  });
}

Status Handle::erase(std::string_view key, std::string* previous) {
  return attempt([&] {
    batch_.erase(key, previous != nullptr ? option::want_previous : 0);
    return run_single([&](const Reply& reply, Status) {
      if (previous != nullptr) previous->assign(reply.value());
    });
  });
}

Status Handle::compare_and_swap(std::string_view key, uint64_t expected, std::string_view value,
                                const PutOptions& options) {
  return attempt([&] {
    batch_.put(key, value, options.conditions | option::if_version, options.expiry, options.flags,
               expected);
    return run_single([](const Reply&, Status) {});
  });
}

Status Handle::add(std::string_view key, int64_t delta, int64_t& sum) {
  return attempt([&] {
    batch_.add(key, delta);
    return run_single([&](const Reply& reply, Status status) {
      if (status == Status::ok) sum = reply.number;
    });
  });
}

Status Handle::expire(std::string_view key, int64_t expiry) {
  return attempt([&] {
    batch_.expire(key, expiry, option::any_type | option::no_value);
    return run_single([](const Reply&, Status) {});
  });
}

Status Handle::clear() {
  return attempt([&] {
    batch_.flush(database_, database_ + 1);
    return run_single([](const Reply&, Status) {});
  });
}

void Handle::submit(Batch& batch) {
  maintain_before(batch, *worker_);
  worker_->submit(batch);
}

Status Handle::start(Batch& batch) {
  static_assert(most_under_way == Worker::most_under_way);
  maintain_before(batch, *worker_);
  return worker_->start(batch) == Worker::Started::retry ? Status::retry : Status::ok;
}

uint32_t Handle::poll() {
  return worker_->poll([](Batch&, bool) {});
}

void Handle::wait(Batch& batch) { worker_->wait_for(batch); }

uint64_t Handle::scan(uint64_t cursor, uint64_t count,
                      const std::function<void(std::string_view key)>& visit) {
  return worker_->scan(database_, cursor, count, [&](const ScanItem& item) { visit(item.key); });
}

bool Handle::maintain() { return worker_->maintain(); }

}  // namespace isotherm
