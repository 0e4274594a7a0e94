// RocksDB for the loads of db_loads.h, by its C interface: out of the library that the program is
// linked with, or out of a file. Debian's library checks its assertions as it runs, so what is
// compared with it alone looks faster than it is; the one in the Java package
// org.rocksdb:rocksdbjni does not, and has the C interface as well.
//
// RocksDB has memtables and a block cache in the shares of H-Rocks (512 MB of 7 GB each memtable,
// five that wait, the rest cache), a log, and no sync of it, as the Db has none.
#pragma once

#include <dlfcn.h>
#include <rocksdb/c.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "db_system.h"

namespace isotherm::bench {

class RocksdbCalls {
  void* const library_;

 public:
  // `library`: a file, or "linked": the one that the program is linked with.
  explicit RocksdbCalls(const std::string& library)
      : library_(library == "linked" ? dlopen(nullptr, RTLD_NOW)
                                     : dlopen(library.c_str(), RTLD_NOW)) {
    if (library_ == nullptr) throw std::runtime_error(std::string("RocksDB: ") + dlerror());
    if (!missing_.empty()) {
      throw std::runtime_error("RocksDB: " + library + " has no function " + missing_);
    }
  }

 private:
  std::string missing_;

  template <class Function>
  Function find(const char* name) {
    void* const found = library_ == nullptr ? nullptr : dlsym(library_, name);
    if (found == nullptr) missing_ = name;
    return reinterpret_cast<Function>(found);
  }

 public:
#define ISOTHERM_CALL(name) \
  decltype(&rocksdb_##name) name = find<decltype(&rocksdb_##name)>("rocksdb_" #name)
  ISOTHERM_CALL(batched_multi_get_cf);
  ISOTHERM_CALL(block_based_options_create);
  ISOTHERM_CALL(block_based_options_set_block_cache);
  ISOTHERM_CALL(cache_create_lru);
  ISOTHERM_CALL(close);
  ISOTHERM_CALL(column_family_handle_destroy);
  ISOTHERM_CALL(create_iterator);
  ISOTHERM_CALL(flush);
  ISOTHERM_CALL(flushoptions_create);
  ISOTHERM_CALL(free);
  ISOTHERM_CALL(get_pinned);
  ISOTHERM_CALL(iter_destroy);
  ISOTHERM_CALL(iter_get_error);
  ISOTHERM_CALL(iter_key);
  ISOTHERM_CALL(iter_next);
  ISOTHERM_CALL(iter_seek);
  ISOTHERM_CALL(iter_valid);
  ISOTHERM_CALL(iter_value);
  ISOTHERM_CALL(merge);
  ISOTHERM_CALL(open_column_families);
  ISOTHERM_CALL(optimistictransaction_begin);
  ISOTHERM_CALL(optimistictransaction_options_create);
  ISOTHERM_CALL(optimistictransactiondb_close);
  ISOTHERM_CALL(optimistictransactiondb_close_base_db);
  ISOTHERM_CALL(optimistictransactiondb_get_base_db);
  ISOTHERM_CALL(optimistictransactiondb_open_column_families);
  ISOTHERM_CALL(options_create);
  ISOTHERM_CALL(options_set_block_based_table_factory);
  ISOTHERM_CALL(options_set_create_if_missing);
  ISOTHERM_CALL(options_set_max_write_buffer_number);
  ISOTHERM_CALL(options_set_uint64add_merge_operator);
  ISOTHERM_CALL(options_set_write_buffer_size);
  ISOTHERM_CALL(perfcontext_create);
  ISOTHERM_CALL(perfcontext_report);
  ISOTHERM_CALL(perfcontext_reset);
  ISOTHERM_CALL(pinnableslice_destroy);
  ISOTHERM_CALL(pinnableslice_value);
  ISOTHERM_CALL(put);
  ISOTHERM_CALL(readoptions_create);
  ISOTHERM_CALL(set_perf_level);
  ISOTHERM_CALL(transaction_commit);
  ISOTHERM_CALL(transaction_destroy);
  ISOTHERM_CALL(transaction_get_pinned);
  ISOTHERM_CALL(transaction_put);
  ISOTHERM_CALL(write);
  ISOTHERM_CALL(writebatch_create);
  ISOTHERM_CALL(writebatch_destroy);
  ISOTHERM_CALL(writebatch_put);
  ISOTHERM_CALL(writeoptions_create);
#undef ISOTHERM_CALL
  decltype(&rocksdb_delete) erase = find<decltype(&rocksdb_delete)>("rocksdb_delete");
};

class RocksdbSystem final : public DbSystem {
 public:
  RocksdbSystem(const std::string& library, const std::string& folder, uint64_t memory,
                bool transactions)
      : call_(library) {
    rocksdb_options_t* const options = call_.options_create();
    call_.options_set_create_if_missing(options, 1);
    call_.options_set_write_buffer_size(options, std::max<uint64_t>(memory / 14, 64 << 10));
    call_.options_set_max_write_buffer_number(options, 6);
    call_.options_set_uint64add_merge_operator(options);
    rocksdb_block_based_table_options_t* const table = call_.block_based_options_create();
    call_.block_based_options_set_block_cache(table, call_.cache_create_lru(memory * 8 / 14));
    call_.options_set_block_based_table_factory(options, table);
    open(folder.c_str(), options, transactions);
  }
  // The process ends soon: options and the like stay as they are.
  ~RocksdbSystem() override {
    call_.column_family_handle_destroy(column_family_);
    if (transactions_ == nullptr) {
      call_.close(db_);
    } else {
      call_.optimistictransactiondb_close_base_db(db_);
      call_.optimistictransactiondb_close(transactions_);
    }
  }
  RocksdbSystem(const RocksdbSystem&) = delete;
  RocksdbSystem& operator=(const RocksdbSystem&) = delete;

  const char* name() const override { return "rocksdb"; }
  bool get(std::string_view key, std::string& value) override {
    return take(checked([&](char** error) {
                  return call_.get_pinned(db_, reads_, key.data(), key.size(), error);
                }),
                value);
  }
  void put(std::string_view key, std::string_view value) override {
    checked([&](char** error) {
      call_.put(db_, writes_, key.data(), key.size(), value.data(), value.size(), error);
    });
  }
  void add_one(std::string_view key) override {
    checked([&](char** error) {
      call_.merge(db_, writes_, key.data(), key.size(), "\1\0\0\0\0\0\0\0", 8, error);
    });
  }
  void erase(std::string_view key) override {
    checked([&](char** error) { call_.erase(db_, writes_, key.data(), key.size(), error); });
  }
  void range(std::string_view first, size_t most, Pairs& pairs) override {
    const Iterator at = iterator();
    pairs.clear();
    walk(at, first, most,
         [&](std::string_view key, std::string_view value) { pairs.emplace_back(key, value); });
  }
  void transaction(const std::vector<TransactionRow>& rows) override {
    const std::unique_ptr<rocksdb_transaction_t, decltype(&rocksdb_transaction_destroy)> its(
        call_.optimistictransaction_begin(transactions_, writes_, optimistic_, nullptr),
        call_.transaction_destroy);
    std::string value;
    for (const TransactionRow& row : rows) {
      if (row.value.empty()) {
        const bool found = take(checked([&](char** error) {
                                  return call_.transaction_get_pinned(
                                      its.get(), reads_, row.key.data(), row.key.size(), error);
                                }),
                                value);
        if (!found) throw std::runtime_error("rocksdb: a key is gone");
      } else {
        checked([&](char** error) {
          call_.transaction_put(its.get(), row.key.data(), row.key.size(), row.value.data(),
                                row.value.size(), error);
        });
      }
    }
    checked([&](char** error) { call_.transaction_commit(its.get(), error); });
  }
  void batch(std::vector<BatchRow>& rows) override {
    const std::unique_ptr<rocksdb_writebatch_t, decltype(&rocksdb_writebatch_destroy)> puts(
        call_.writebatch_create(), call_.writebatch_destroy);
    std::vector<const char*> keys;
    std::vector<size_t> sizes;
    for (const BatchRow& row : rows) {
      if (row.puts) {
        call_.writebatch_put(puts.get(), row.key.data(), row.key.size(), row.value.data(),
                             row.value.size());
      } else {
        keys.push_back(row.key.data());
        sizes.push_back(row.key.size());
      }
    }
    if (!keys.empty()) gets(keys, sizes, rows);
    if (keys.size() == rows.size()) return;
    checked([&](char** error) { call_.write(db_, writes_, puts.get(), error); });
  }
  void ranges(const std::vector<std::string>& firsts, size_t most, SeenPairs& seen) override {
    const Iterator at = iterator();
    for (size_t i = 0; i < firsts.size(); ++i) {
      walk(at, firsts[i], most,
           [&](std::string_view key, std::string_view value) { seen.add(i, key, value); });
    }
  }
  void flush() override {
    checked([&](char** error) { call_.flush(db_, call_.flushoptions_create(), error); });
  }

  void begin_parts() override {
    // Times, but those of mutexes; releases before 8 count processor time as well.
    call_.set_perf_level(rocksdb_enable_time);
    call_.perfcontext_reset(call_.perfcontext_create());
  }
  Parts end_parts() override {
    const std::unique_ptr<char, decltype(&rocksdb_free)> report(
        reinterpret_cast<char*>(call_.perfcontext_report(call_.perfcontext_create(), 1)),
        reinterpret_cast<decltype(&rocksdb_free)>(call_.free));
    call_.set_perf_level(rocksdb_disable);
    // By their names, since their numbers are not those of all releases.
    const auto ns = [&](const std::string& counter) -> uint64_t {
      const std::string text = std::string(", ") + report.get();
      const size_t at = text.find(", " + counter + " = ");
      return at == std::string::npos ? 0 : std::stoull(text.substr(at + counter.size() + 5));
    };
    return {{"memtable", ns("write_memtable_time") + ns("get_from_memtable_time")},
            {"log", ns("write_wal_time")},
            {"flush and compaction",
             ns("write_delay_time") + ns("write_scheduling_flushes_compactions_time")},
            {"files", ns("get_from_output_files_time")},
            {"of them blocks that were read", ns("block_read_time")}};
  }

 private:
  using Iterator = std::unique_ptr<rocksdb_iterator_t, decltype(&rocksdb_iter_destroy)>;
  Iterator iterator() { return {call_.create_iterator(db_, reads_), call_.iter_destroy}; }

  // Shows up to `most` pairs from a key on.
  template <class Show>
  void walk(const Iterator& at, std::string_view first, size_t most, Show&& show) {
    const auto text = [&](auto part) {
      size_t bytes = 0;
      const char* const from = part(at.get(), &bytes);
      return std::string_view(from, bytes);
    };
    call_.iter_seek(at.get(), first.data(), first.size());
    for (; most != 0 && call_.iter_valid(at.get()) != 0; --most) {
      show(text(call_.iter_key), text(call_.iter_value));
      call_.iter_next(at.get());
    }
    checked([&](char** error) { call_.iter_get_error(at.get(), error); });
  }
  void open(const char* folder, const rocksdb_options_t* options, bool transactions) {
    const char* const name = "default";
    checked([&](char** error) {
      if (!transactions) {
        db_ =
            call_.open_column_families(options, folder, 1, &name, &options, &column_family_, error);
        return;
      }
      transactions_ = call_.optimistictransactiondb_open_column_families(
          options, folder, 1, &name, &options, &column_family_, error);
      if (*error == nullptr) db_ = call_.optimistictransactiondb_get_base_db(transactions_);
    });
  }
  void gets(const std::vector<const char*>& keys, const std::vector<size_t>& sizes,
            std::vector<BatchRow>& rows) {
    std::vector<rocksdb_pinnableslice_t*> values(keys.size());
    std::vector<char*> errors(keys.size());
    call_.batched_multi_get_cf(db_, reads_, column_family_, keys.size(), keys.data(), sizes.data(),
                               values.data(), errors.data(), false);
    size_t next = 0;
    for (BatchRow& row : rows) {
      if (row.puts) continue;
      check(errors[next]);
      row.found = take(values[next], row.value);
      ++next;
    }
  }
  // Whether there is a value; it is copied and let go.
  bool take(rocksdb_pinnableslice_t* found, std::string& value) {
    if (found == nullptr) return false;
    size_t bytes = 0;
    const char* const from = call_.pinnableslice_value(found, &bytes);
    value.assign(from, bytes);
    call_.pinnableslice_destroy(found);
    return true;
  }

  void check(char* error) {
    if (error == nullptr) return;
    const std::string text = error;
    call_.free(error);
    throw std::runtime_error("rocksdb: " + text);
  }
  template <class Call>
  std::invoke_result_t<Call, char**> checked(Call&& call) {
    char* error = nullptr;
    if constexpr (std::is_void_v<std::invoke_result_t<Call, char**>>) {
      call(&error);
      check(error);
    } else {
      const auto result = call(&error);
      check(error);
      return result;
    }
  }

  const RocksdbCalls call_;
  const rocksdb_readoptions_t* const reads_ = call_.readoptions_create();
  const rocksdb_writeoptions_t* const writes_ = call_.writeoptions_create();
  rocksdb_optimistictransaction_options_t* const optimistic_ =
      call_.optimistictransaction_options_create();
  rocksdb_optimistictransactiondb_t* transactions_ = nullptr;  // over db_, or none
  rocksdb_t* db_ = nullptr;
  rocksdb_column_family_handle_t* column_family_ = nullptr;
};

}  // namespace isotherm::bench
