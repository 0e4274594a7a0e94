#include "net/memcached/writer.h"

#include <gtest/gtest.h>

#include <string>

namespace isotherm::net::memcached_writer_test {
namespace {

using enum MemcachedVerb;

// One request whose reply slot the test fills by hand.
class MemcachedWriterTest : public testing::Test {
 protected:
  Reply& add_row(std::string_view key, Status status) {
    const Batch::Row row = batch_.get(key);
    Reply& reply = batch_.columns().reply[row];
    reply.status = status;
    return reply;
  }
  Reply& add_value(std::string_view key, std::string_view value) {
    Reply& reply = add_row(key, Status::ok);
    reply.data = value.data();
    reply.size = value.size();
    return reply;
  }
  std::string write(const MemcachedAnswer& answer) {
    Output output;
    write_answer(answer, batch_, counters_, output);
    return output.text();
  }
  // What `verb` answers to a request that ended with `status`.
  std::string write(MemcachedVerb verb, Status status, bool silent = false) {
    add_row("k", status);
    return write({.verb = verb, .silent = silent, .row = batch_.size() - 1, .count = 1});
  }

  uint64_t total(Counter SlabCounters::*counter) const {
    uint64_t sum = 0;
    for (const SlabCounters& slab : counters_.by_slab) sum += (slab.*counter).get();
    return sum;
  }

  Batch batch_;
  MemcachedCounters counters_;
};

TEST_F(MemcachedWriterTest, ValuesInOrderMissesLeftOut) {
  Reply& first = add_value("a", "one");
  first.flags = 4294967295u;
  first.version = 18446744073709551615u;
  add_row("b", Status::not_found);
  add_value("c", "");
  EXPECT_EQ(write({.verb = get, .row = 0, .count = 3}),
            "VALUE a 4294967295 3\r\none\r\nVALUE c 0 0\r\n\r\nEND\r\n");
  EXPECT_EQ(write({.verb = gets, .row = 0, .count = 2}),
            "VALUE a 4294967295 3 18446744073709551615\r\none\r\nEND\r\n");
  EXPECT_EQ(write({.verb = gat, .row = 1, .count = 1}), "END\r\n");
  EXPECT_EQ(counters_.cmd_get.get(), 5u);
  EXPECT_EQ(total(&SlabCounters::get_hits), 3u);
  EXPECT_EQ(counters_.get_misses.get(), 2u);
  EXPECT_EQ(counters_.touch_misses.get(), 1u);
}

TEST_F(MemcachedWriterTest, ValuesOfEverySizeAroundAChunk) {
  const std::string key(250, 'k');
  for (size_t size = Output::chunk_bytes / 2 - 300; size < Output::chunk_bytes * 2; size += 97) {
    const std::string value(size, 'v');
    batch_.clear();
    add_value(key, value);
    EXPECT_EQ(write({.verb = get, .row = 0, .count = 1}),
              "VALUE " + key + " 0 " + std::to_string(size) + "\r\n" + value + "\r\nEND\r\n");
  }
}

TEST_F(MemcachedWriterTest, AGetThatFailedSaysSo) {
  add_value("a", "one");
  add_row("b", Status::retry);
  EXPECT_EQ(write({.verb = get, .row = 0, .count = 2}),
            "VALUE a 0 3\r\none\r\nSERVER_ERROR out of memory writing get response\r\n");
}

TEST_F(MemcachedWriterTest, AnUnfinishedGetHasNoEnd) {
  add_value("a", "one");
  EXPECT_EQ(write({.verb = get, .unfinished = true, .row = 0, .count = 1}),
            "VALUE a 0 3\r\none\r\n");
}

TEST_F(MemcachedWriterTest, Stores) {
  EXPECT_EQ(write(set, Status::ok), "STORED\r\n");
  EXPECT_EQ(write(add, Status::condition_failed), "NOT_STORED\r\n");
  EXPECT_EQ(write(replace, Status::not_found), "NOT_STORED\r\n");
  EXPECT_EQ(write(append, Status::not_found), "NOT_STORED\r\n");
  EXPECT_EQ(write(append, Status::too_large), "NOT_STORED\r\n");
  EXPECT_EQ(write(prepend, Status::wrong_type), "NOT_STORED\r\n");
  EXPECT_EQ(write(cas, Status::condition_failed), "EXISTS\r\n");
  EXPECT_EQ(write(cas, Status::not_found), "NOT_FOUND\r\n");
  EXPECT_EQ(write(set, Status::out_of_memory), "SERVER_ERROR out of memory storing object\r\n");
  EXPECT_EQ(write(set, Status::too_large), "SERVER_ERROR object too large for cache\r\n");
  EXPECT_EQ(total(&SlabCounters::cmd_set), 10u);
  EXPECT_EQ(total(&SlabCounters::cas_badval), 1u);
  EXPECT_EQ(counters_.cas_misses.get(), 1u);
}

TEST_F(MemcachedWriterTest, Arithmetic) {
  add_row("n", Status::ok).number = -1;
  EXPECT_EQ(write({.verb = incr, .row = 0, .count = 1}), "18446744073709551615\r\n");
  EXPECT_EQ(write(decr, Status::not_found), "NOT_FOUND\r\n");
  EXPECT_EQ(write(incr, Status::not_an_integer),
            "CLIENT_ERROR cannot increment or decrement non-numeric value\r\n");
  EXPECT_EQ(write(incr, Status::out_of_memory), "SERVER_ERROR out of memory\r\n");
  EXPECT_EQ(total(&SlabCounters::incr_hits), 1u);
  EXPECT_EQ(counters_.decr_misses.get(), 1u);
}

TEST_F(MemcachedWriterTest, DeleteAndTouch) {
  EXPECT_EQ(write(erase, Status::ok), "DELETED\r\n");
  EXPECT_EQ(write(erase, Status::not_found), "NOT_FOUND\r\n");
  EXPECT_EQ(write(touch, Status::ok), "TOUCHED\r\n");
  EXPECT_EQ(write(touch, Status::not_found), "NOT_FOUND\r\n");
  EXPECT_EQ(total(&SlabCounters::delete_hits), 1u);
  EXPECT_EQ(counters_.cmd_touch.get(), 2u);
}

TEST_F(MemcachedWriterTest, SilentAnswersAreCountedOnly) {
  for (const MemcachedVerb verb : {set, add, cas, append, incr, decr, erase, touch}) {
    for (const Status status : {Status::ok, Status::not_found, Status::out_of_memory}) {
      EXPECT_EQ(write(verb, status, true), "");
    }
  }
  EXPECT_EQ(total(&SlabCounters::cmd_set), 12u);
  EXPECT_EQ(total(&SlabCounters::delete_hits), 1u);
}

}  // namespace
}  // namespace isotherm::net::memcached_writer_test
