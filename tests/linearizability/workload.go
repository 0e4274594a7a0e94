package main

import (
	"fmt"
	"math/rand"
	"strings"
	"time"
)

// A profile is what the clients of one history do: bursts of requests on a few hot keys, with
// pauses between them in which keys expire or are evicted.
type profile struct {
	name      string
	bursts    int
	perBurst  int // requests of one client in one burst
	hotKeys   int // most requests of a burst go to these many keys
	depth     int // requests in one pipeline, at most
	pause     time.Duration
	resp      []choice
	memcached []choice
}

type choice struct {
	weight int
	make   func(w *worker, key int) *request
}

func profiles() []profile {
	return []profile{
		{name: "mixed", bursts: 6, perBurst: 50, hotKeys: 4, depth: 2, pause: 150 * time.Millisecond,
			resp: []choice{{30, get}, {6, getMany}, {14, set}, {6, setConditional}, {6, setGet},
				{6, setExpiring}, {4, setMany}, {6, del}, {4, getDelete}, {10, increment},
				{8, appendText}, {4, setNumber}},
			memcached: []choice{{16, get}, {6, getMany}, {20, gets}, {16, cas}, {8, set},
				{6, setConditional}, {4, del}, {6, incrPresent}, {5, extendPresent},

				{3, setNumber}}},
		{name: "counters", bursts: 4, perBurst: 80, hotKeys: 2, depth: 8,
			pause:     60 * time.Millisecond,
			resp:      []choice{{80, increment}, {10, get}, {2, del}, {1, setNumber}},
			memcached: []choice{{70, incrPresent}, {15, gets}, {10, casNumber}, {2, setNumber}}},
		{name: "swaps", bursts: 6, perBurst: 50, hotKeys: 2, depth: 1, pause: 60 * time.Millisecond,
			resp: []choice{{20, get}, {20, setConditional}, {20, setGet}, {10, getDelete}, {6, del},
				{12, appendText}},
			memcached: []choice{{40, gets}, {40, cas}, {8, setConditional}, {3, del}}},
		{name: "expiry", bursts: 6, perBurst: 36, hotKeys: 3, depth: 2,
			pause: 450 * time.Millisecond,
			resp: []choice{{40, get}, {8, getMany}, {25, setExpiring}, {6, setKeeping},
				{6, setConditional}, {6, increment}, {5, appendText}, {3, del}},
			memcached: []choice{{30, get}, {20, gets}, {6, cas}, {4, extendPresent}, {3, incrPresent}}},
	}
}

// framed is what clients do whose requests come in frames: mostly what a GPU answers.
func framed() []choice {
	return []choice{{50, get}, {40, gets}, {4, set}, {4, cas}, {2, del}}
}

// A worker draws one client's requests.
type worker struct {
	id       int
	random   *rand.Rand
	keys     int
	choices  []choice
	total    int
	serial   int
	sequence []int
	versions map[int]uint64 // what gets has shown, by key
}

func newWorker(id, keys int, random *rand.Rand, choices []choice) *worker {
	w := &worker{id: id, random: random, keys: keys, choices: choices,
		sequence: make([]int, keys), versions: map[int]uint64{}}
	for _, c := range choices {
		w.total += c.weight
	}
	return w
}

func (w *worker) draw(key int) *request {
	at := w.random.Intn(w.total)
	for _, c := range w.choices {
		if at -= c.weight; at < 0 {
			return c.make(w, key)
		}
	}
	panic("weights do not add up")
}

func (w *worker) input(k kind, key int) *input {
	in := &input{kind: k, key: key, client: w.id, sequence: w.sequence[key]}
	w.sequence[key]++
	return in
}

func one(in *input) *request { return &request{inputs: []*input{in}} }

// text is a value that nobody else writes: a mark repeated to a length, so that a torn value shows.
func (w *worker) text() string {
	w.serial++
	mark := fmt.Sprintf("%d.%d|", w.id, w.serial)
	size := 0
	switch p := w.random.Intn(100); {
	case p >= 98:
		size = w.random.Intn(40000)
	case p >= 90:
		size = w.random.Intn(2000)
	case p >= 70:
		size = w.random.Intn(100)
	}
	return strings.Repeat(mark, 1+size/len(mark))
}

func (w *worker) mark() string {
	w.serial++
	return fmt.Sprintf("%d.%d|", w.id, w.serial)
}

// number leaves room for increments before it meets the next one's.
func (w *worker) number() string {
	w.serial++
	return fmt.Sprint(int64(w.id+1)*1000000000 + int64(w.serial)*100000)
}

func (w *worker) someKeys(first int) []int {
	keys := []int{first}
	for _, key := range w.random.Perm(w.keys) {
		if key != first && len(keys) < 4 {
			keys = append(keys, key)
		}
	}
	return keys[:2+w.random.Intn(len(keys)-1)]
}

func get(w *worker, key int) *request { return one(w.input(opGet, key)) }

func gets(w *worker, key int) *request { return one(w.input(opGets, key)) }

func getMany(w *worker, key int) *request {
	q := &request{}
	for _, key := range w.someKeys(key) {
		q.inputs = append(q.inputs, w.input(opGet, key))
	}
	return q
}

func set(w *worker, key int) *request {
	in := w.input(opSet, key)
	in.value = w.text()
	return one(in)
}

func setNumber(w *worker, key int) *request {
	in := w.input(opSet, key)
	in.value = w.number()
	return one(in)
}

func setMany(w *worker, key int) *request {
	q := &request{}
	for _, key := range w.someKeys(key) {
		q.inputs = append(q.inputs, set(w, key).inputs...)
	}
	return q
}

func setConditional(w *worker, key int) *request {
	q := set(w, key)
	q.inputs[0].condition = ifAbsent + condition(w.random.Intn(2))
	return q
}

func setGet(w *worker, key int) *request {
	q := set(w, key)
	q.inputs[0].wantOld = true
	q.inputs[0].condition = condition(w.random.Intn(3))
	return q
}

func setExpiring(w *worker, key int) *request {
	q := set(w, key)
	if w.random.Intn(4) == 0 {
		q.inputs[0].value = w.number()
	}
	q.inputs[0].expiry = time.Duration(1+w.random.Intn(300)) * time.Millisecond
	return q
}

// setKeeping asks for the old value, too: without it the answer would not tell whether the expiry
// that is kept had passed.
func setKeeping(w *worker, key int) *request {
	q := set(w, key)
	q.inputs[0].keepExpiry, q.inputs[0].wantOld = true, true
	return q
}

func del(w *worker, key int) *request { return one(w.input(opDelete, key)) }

func getDelete(w *worker, key int) *request { return one(w.input(opGetDelete, key)) }

func increment(w *worker, key int) *request {
	in := w.input(opIncrement, key)
	in.delta = 1
	if w.random.Intn(4) == 0 {
		in.delta = int64(2 + w.random.Intn(50))
	}
	return one(in)
}

func appendText(w *worker, key int) *request {
	in := w.input(opAppend, key)
	in.value = w.mark()
	return one(in)
}

// incrPresent and extendPresent are as memcached has them: nothing happens to an absent key.
func incrPresent(w *worker, key int) *request {
	q := increment(w, key)
	q.inputs[0].condition = ifPresent
	return q
}

func extendPresent(w *worker, key int) *request {
	q := appendText(w, key)
	q.inputs[0].condition = ifPresent
	if w.random.Intn(2) == 0 {
		q.inputs[0].kind = opPrepend
	}
	return q
}

// cas with the version last seen; half the time it is remembered, to be stale when used again.
func cas(w *worker, key int) *request {
	version, known := w.versions[key]
	if !known {
		return gets(w, key)
	}
	if w.random.Intn(2) == 0 {
		delete(w.versions, key)
	}
	in := w.input(opCas, key)
	in.value, in.version = w.text(), version
	return one(in)
}

func casNumber(w *worker, key int) *request {
	q := cas(w, key)
	if q.kind() == opCas {
		q.inputs[0].value = w.number()
	}
	return q
}
