package main

import (
	"fmt"
	"time"
)

// An operation is one request on one key as a client saw it. A command over several keys (MGET,
// MSET, FLUSHALL) is recorded as one operation per key: if the command is linearizable, so is its
// projection on each key.

type kind uint8

const (
	opGet kind = iota
	opGets
	opSet
	opCas
	opDelete
	opGetDelete
	opIncrement
	opAppend
	opPrepend
	opFlush
)

var kindNames = [...]string{
	"get", "gets", "set", "cas", "delete", "getdel", "incr", "append", "prepend", "flush",
}

type condition uint8

const (
	always condition = iota
	ifAbsent
	ifPresent
)

type input struct {
	kind       kind
	key        int
	client     int
	sequence   int // counts the client's operations on this key, from 0
	call       int64
	value      string
	delta      int64
	version    uint64 // what cas expects
	condition  condition
	wantOld    bool          // SET … GET
	keepExpiry bool          // SET … KEEPTTL
	expiry     time.Duration // SET … PX; 0: none
}

type code uint8

const (
	done       code = iota // took effect, or read
	unmet                  // the condition did not hold; nothing changed
	mismatch               // cas: another version is stored
	notInteger             // incr on something else
	refused                // out of memory; nothing changed
	unanswered             // the server was killed: it took effect before, or never
)

var codeNames = [...]string{"done", "unmet", "mismatch", "not an integer", "refused",
	"unanswered"}

// What an answer says about the key at the moment the operation took effect.
type sight uint8

const (
	unseen sight = iota // nothing: a plain SET answers OK either way
	seenAbsent
	seenPresent
)

type output struct {
	code    code
	sight   sight
	value   string // the value read, where the operation returns it
	number  int64  // incr: the sum; append: the new length where hasLen
	hasLen  bool
	version uint64 // gets
	ret     int64
}

func (in input) String() string {
	s := fmt.Sprintf("client %d #%d %s", in.client, in.sequence, kindNames[in.kind])
	switch in.kind {
	case opSet, opCas, opAppend, opPrepend:
		s += " " + brief(in.value)
	case opIncrement:
		s += fmt.Sprintf(" %d", in.delta)
	}
	switch in.condition {
	case ifAbsent:
		s += " if absent"
	case ifPresent:
		s += " if present"
	}
	if in.kind == opCas {
		s += fmt.Sprintf(" if version %d", in.version)
	}
	if in.expiry != 0 {
		s += fmt.Sprintf(" for %v", in.expiry)
	}
	if in.keepExpiry {
		s += " keeping expiry"
	}
	return s
}

func (out output) String() string {
	s := codeNames[out.code]
	switch out.sight {
	case seenAbsent:
		s += ", absent"
	case seenPresent:
		s += ", present"
	}
	if out.value != "" {
		s += " " + brief(out.value)
	}
	if out.number != 0 {
		s += fmt.Sprintf(" %d", out.number)
	}
	if out.version != 0 {
		s += fmt.Sprintf(" version %d", out.version)
	}
	return s
}

func brief(value string) string {
	if len(value) <= 40 {
		return fmt.Sprintf("%q", value)
	}
	return fmt.Sprintf("%q…(%d bytes)", value[:40], len(value))
}
