#include "db/stored_journal.h"

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "base/reason_of.h"
#include "base/worker_pool.h"
#include "db/store_filler.h"
#include "durability/rdb_file.h"
#include "durability/segment_writer.h"
#include "items/meta_state.h"
#include "tree/tree.h"

namespace isotherm {
namespace {

// While the store is filled: what is put comes from the journal, but what has no room for good is
// gone for it, too.
class FillSink final : public CommitSink {
 public:
  explicit FillSink(Journal& journal) : journal_(journal) {}

  Begun begins(const Batch& /*batch*/) override { return {}; }
  void changed(const ItemChange& change) override {
    if (change.reason != ItemChange::Reason::request) journal_.changed(change);
  }
  void flushed(uint32_t /*database*/, uint64_t /*version*/, uint64_t /*token*/) override {}
  Awaited* ends(uint64_t /*token*/) override { return nullptr; }

 private:
  Journal& journal_;
};

bool has_database(const Engine& engine, uint32_t database) {
  return database < engine.options().databases;
}

void check_database(const Engine& engine, uint32_t database) {
  if (has_database(engine, database)) return;
  throw JournalError("journal: it has keys in database " + std::to_string(database) +
                     ": more databases are needed");
}

uint64_t state_of(const RecordHeader& record, int64_t now_ms) {
  return record.state == 0 ? 0 : MetaState::fresh(now_ms) | record.state;
}

// The value of which the records have parts alone, with these.
void put_parts(StoreFiller& filler, const ValueParts& parts, int64_t expiry, std::string& value,
               int64_t now_ms) {
  const RecordHeader& last = parts.last();
  if (!parts.apply(value)) return JournalReader::check_may_lack(parts, expiry);
  filler.put({last.database, last.key(), value, expiry, last.flags, state_of(last, now_ms)}, true);
}

// Indexes of a fixed size need the exact number, which takes as long as reading all.
void expect_keys(Engine& engine, const JournalReader& reader, const RdbFile* base) {
  std::map<uint32_t, uint64_t> keys;
  if (base != nullptr) keys = base->items_by_database();
  if (engine.options().index == IndexChoice::line) {
    for (const auto& [database, least] : reader.keys_at_least()) {
      keys[database] = std::max(keys[database], least);
    }
    return engine.expect_keys(keys);
  }
  reader.read([&](const RecordHeader& put, int64_t) { ++keys[put.database]; });
  engine.expect_keys(keys);
}

// What of the base is still as it was, but for parts of some values.
void fill_from_base(Engine& engine, const JournalReader& reader, const RdbFile& file,
                    FillTotals& totals) {
  if (!reader.manifest().base.is(file)) {
    throw JournalError("journal: " + reader.path_of_base() +
                       " is not the snapshot that it was cut behind");
  }
  WorkerPool(reader.threads()).run(file.parts(), [&](uint32_t part, uint32_t) {
    StoreFiller filler(engine, totals);
    ValueParts parts;
    file.read(part, [&](const RdbItem& item) {
      int64_t expiry = item.expiry;
      if (!reader.keeps(item.database, item.key, expiry, parts)) return;
      check_database(engine, item.database);
      if (!parts.empty()) {
        std::string value(item.value);
        return put_parts(filler, parts, expiry, value, engine.clock().now_ms());
      }
      filler.put({item.database, item.key, item.value, expiry, item.flags, item.state},
                 !file.has(item.key) || !file.has(item.value));
    });
    filler.finish();
  });
}

// Of a journal behind a tree, which has what the parts were made of, or something later.
void fill_from_tree(Engine& engine, StoreFiller& filler, const ValueParts& parts, int64_t expiry,
                    int64_t now_ms) {
  const RecordHeader& last = parts.last();
  std::string value;
  uint64_t version = 0;
  const bool is_over = expiry != no_expiry && expiry <= now_ms;
  if (is_over && !has_database(engine, last.database)) return;
  check_database(engine, last.database);
  const bool has = !is_over && filler.get(last.database, last.key(), value, version);
  if (has && version >= parts.base()) return put_parts(filler, parts, expiry, value, now_ms);
  if (!is_over) JournalReader::check_may_lack(parts, expiry);
  filler.erase(last.database, last.key());
}

// The manifest first: without it the others are nothing.
void remove_new(const std::string& base, Files& files) {
  files.remove(manifest_path(base));
  files.remove(base_path(base, 1));
  for (uint64_t number = 1; files.remove(segment_path(base, number)) >= 0;) ++number;
}

}  // namespace

// With a tree, what is gone is to be gone there, too.
void fill_store(Engine& engine, const JournalReader& reader) {
  FillTotals totals;
  const bool erases = engine.tree() != nullptr;
  const int64_t now_ms = engine.clock().now_ms();
  const bool has_base = !reader.path_of_base().empty();
  std::optional<RdbFile> base;
  if (has_base) base.emplace(reader.path_of_base());
  expect_keys(engine, reader, has_base ? &*base : nullptr);
  if (has_base) fill_from_base(engine, reader, *base, totals);
  base.reset();  // it may be as large as the store
  std::vector<std::unique_ptr<StoreFiller>> fillers(reader.threads());
  WorkerPool(reader.threads()).run(reader.parts(), [&](uint32_t part, uint32_t thread) {
    if (fillers[thread] == nullptr) {
      fillers[thread] = std::make_unique<StoreFiller>(engine, totals);
    }
    StoreFiller& filler = *fillers[thread];
    const auto put_one = [&](const RecordHeader& put, int64_t expiry) {
      const bool is_over = expiry != no_expiry && expiry <= now_ms;
      if (is_over && !has_database(engine, put.database)) return;
      check_database(engine, put.database);
      if (erases && is_over) return filler.erase(put.database, put.key());
      filler.put({put.database, put.key(), put.value(), expiry, put.flags, state_of(put, now_ms)},
                 put.op == RecordOp::part);
    };
    const auto erase_one = [&](uint32_t database, std::string_view key) {
      if (erases && has_database(engine, database)) filler.erase(database, key);
    };
    // What a base lacks was evicted, or had expired, before it was written.
    reader.read(part, put_one, erase_one, [&](const ValueParts& parts, int64_t expiry) {
      if (!has_base) fill_from_tree(engine, filler, parts, expiry, now_ms);
    });
    filler.finish();
  });
  if (const std::string problem = totals.problem(engine); !problem.empty()) {
    throw JournalError("journal: " + problem);
  }
}

StoredJournal::StoredJournal(const StoredJournalOptions& options, Engine& engine, Files& files)
    : engine_(engine), log_(options.log), lock_(options.folder, options.name) {
  bool begins = false;
  try {
    begins = begin_with_snapshot(options, files);
    const JournalReader reader(options.folder, options.name, options.readers);
    if (reader.torn_bytes() != 0) {
      log(true, "the journal ends in a torn tail: " + std::to_string(reader.torn_bytes()) +
                    " bytes behind its last record are left out");
    }
    Tree* const tree = engine_.tree();
    if (reader.manifest().base.is_in_tree() && (tree == nullptr || tree->wants_snapshot())) {
      throw JournalError(
          "journal: what was stored before its first record is in the files of a tree: start with "
          "that tree, or remove the journal to begin anew");
    }
    if (tree != nullptr) {
      tree->expect_journal(reader.manifest().store, reader.first_lsn(), reader.found());
    }
    // Versions of what is filled in are on no disk, but later ones must be behind them.
    engine_.begin_versions(reader.last_version());
    // The base has fewer than half as many items as bytes.
    const uint64_t last_version =
        reader.last_version() + 2 * reader.records() + reader.manifest().base.bytes + 1;
    JournalOptions its;
    its.folder = options.folder;
    its.name = options.name;
    its.policy = options.policy;
    its.behind_tree = tree != nullptr && !tree->wants_snapshot();
    its.log = [this](const std::string& line) { log(true, line); };
    its.count = [this](int64_t bytes) { engine_.add_sink_bytes(bytes); };
    its.cap = [this] { return engine_.maxmemory(); };
    journal_ = std::make_unique<Journal>(its, reader, last_version, files);
    FillSink filling(*journal_);
    if (tree == nullptr) engine_.set_commit_sink(&filling);
    if (tree != nullptr) clear(reader);
    fill(reader);
    engine_.set_commit_sink(journal_.get());
    if (tree != nullptr) tree->drop_from(journal_.get());
  } catch (...) {
    engine_.set_commit_sink(nullptr);
    journal_.reset();
    if (begins) remove_new(options.folder + "/" + options.name, files);
    throw;
  }
}

StoredJournal::~StoredJournal() {
  if (Tree* const tree = engine_.tree(); tree != nullptr) {
    tree->end_journal();
    tree->drop_from(nullptr);
  }
  engine_.set_commit_sink(nullptr);
  journal_.reset();
}

// Whether there is a new journal then: one without records, whose base the snapshot is.
bool StoredJournal::begin_with_snapshot(const StoredJournalOptions& options, Files& files) const {
  const std::string base = options.folder + "/" + options.name;
  if (options.snapshot.empty() || !std::filesystem::exists(options.snapshot)) return false;
  if (std::filesystem::exists(manifest_path(base))) return false;
  const JournalReader reader(options.folder, options.name, 1);
  const RdbFile file(options.snapshot);
  Manifest manifest = reader.manifest();
  manifest.base = {manifest.first, file.last_version(), file.sum(), file.bytes()};
  SegmentWriter segments(files, options.folder, options.name, manifest, reader.segment_lsns(),
                         sizeof(SegmentHeader));
  int made = segments.put_base(options.snapshot, manifest.base.number, file.bytes());
  if (made >= 0) made = segments.begin(reader.end_lsn(), file.versions_end(), 0);
  if (made < 0) {
    remove_new(base, files);
    throw JournalError("journal: cannot begin with a copy of " + options.snapshot + ": " +
                       reason_of(-made));
  }
  log(false, "the journal begins with the snapshot " + options.snapshot);
  return true;
}

// What the files of a tree have of databases that were flushed later.
void StoredJournal::clear(const JournalReader& reader) {
  Worker worker(engine_);
  for (const uint32_t database : reader.flushed()) {
    if (has_database(engine_, database)) worker.flush(database);
  }
}

void StoredJournal::fill(const JournalReader& reader) {
  fill_store(engine_, reader);
  if (!reader.found()) return;
  log(false, "the journal was read: " + std::to_string(reader.records()) + " records, " +
                 std::to_string(count_keys(engine_)) + " keys");
}

void StoredJournal::log(bool warns, const std::string& line) const {
  if (log_) log_(warns, line);
}

}  // namespace isotherm
