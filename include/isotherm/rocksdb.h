// open_rocksdb: a Db (isotherm/db.h) as a rocksdb::DB, for programs that are written for RocksDB.
//
//   rocksdb::DB* db = nullptr;
//   rocksdb::Status status = isotherm::open_rocksdb(options, "/data/db", &db);  // not DB::Open
//   status = db->Put(rocksdb::WriteOptions(), "key", "value");
// All else stays as it is: what comes back is a rocksdb::StackableDB, which is deleted as any
// other.
//
// What is where. The default column family is a Db: Put, Get, Delete, Merge, Write, MultiGet,
// iterators and snapshots of it are the Db's. Below it, in the folder `families`, is a database of
// RocksDB's own, opened with the options that were given, which has all other column families and
// answers what a Db has nothing for. docs/db.md lists every call.
//
// Merges. Options::merge_operator is called for one operand at a time, at the write, so an operator
// that refuses is found by the write. Other comparators than BytewiseComparator are refused, as are
// timestamps and wide columns of the default column family.
//
// Batches. All are whole after a crash, and in a snapshot. One that has changes of the default
// column family and of others waits for a sync of the Db's journal, whatever DbOptions::sync says.
//
// Syncs. DbOptions::sync says when writes are on disk; one with WriteOptions::sync waits for that
// whatever it says.
//
// Threads. As of RocksDB's own: any number may call it; an iterator belongs to one at a time.
#pragma once

#include <rocksdb/db.h>

#include <string>
#include <vector>

#include "isotherm/db.h"

namespace isotherm {

// `more`: what RocksDB's options have no word for; its merges are the merge operator's.
rocksdb::Status open_rocksdb(const rocksdb::Options& options, const std::string& name,
                             rocksdb::DB** db, const DbOptions& more = {});
// As DB::Open with column families; the default one is among them.
rocksdb::Status open_rocksdb(const rocksdb::DBOptions& options, const std::string& name,
                             const std::vector<rocksdb::ColumnFamilyDescriptor>& families,
                             std::vector<rocksdb::ColumnFamilyHandle*>* handles, rocksdb::DB** db,
                             const DbOptions& more = {});
// As DB::ListColumnFamilies.
rocksdb::Status list_rocksdb_families(const rocksdb::DBOptions& options, const std::string& name,
                                      std::vector<std::string>* families);
// As rocksdb::DestroyDB: removes what belongs to the database, and the folder if nothing else is in
// it. IOError, and nothing is removed, while it is open.
rocksdb::Status destroy_rocksdb(const std::string& name, const rocksdb::Options& options);

}  // namespace isotherm
