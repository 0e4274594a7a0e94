package main

import (
	"fmt"
	"math/rand"
	"strings"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"
)

// A server under test; one of the first two addresses may be empty, and `packets`, where memcached's
// requests come in frames.
type target struct {
	resp, memcached, packets string
}

// A plan says how to make one history.
type plan struct {
	number      int
	seed        int64
	profile     profile
	clients     int // on RESP, plus
	memcachers  int // on memcached, plus
	packeters   int // on memcached in frames
	keys        int
	fill        int // other keys written meanwhile
	largeFill   bool
	flushMiddle bool
}

// names of the keys: new in each history, and some of them long.
func (p plan) names() []string {
	names := make([]string, p.keys)
	for i := range names {
		names[i] = fmt.Sprintf("h%d:%x:k%d", p.number, p.seed&0xffff, i)
		if i%3 == 2 {
			names[i] += strings.Repeat("-", 20*i)
		}
	}
	return names
}

// run makes one history: all clients work through the bursts together while fillers make the index
// grow and memory churn.
func (p plan) run(t target) ([]porcupine.Operation, error) {
	participants, err := p.open(t)
	if err != nil {
		return nil, err
	}
	defer func() {
		for _, s := range participants {
			s.client.conn.Close()
		}
	}()
	fill, err := startFillers(p, t)
	if err != nil {
		return nil, err
	}
	for burst := 0; burst < p.profile.bursts && err == nil; burst++ {
		fill.burst()
		err = together(participants, func(s *participant) error { return s.burst(burst) })
		time.Sleep(p.profile.pause)
	}
	if fillErr := fill.stop(); err == nil {
		err = fillErr
	}
	var history []porcupine.Operation
	for _, s := range participants {
		history = append(history, s.history...)
	}
	return history, err
}

func (p plan) open(t target) ([]*participant, error) {
	start := time.Now()
	random := rand.New(rand.NewSource(p.seed))
	names := p.names()
	var participants []*participant
	for i := 0; i < p.clients+p.memcachers+p.packeters; i++ {
		var c *client
		var err error
		choices := p.profile.resp
		depth, isFramed := p.profile.depth, i >= p.clients+p.memcachers
		if i < p.clients {
			c, err = dial(respCodec{}, t.resp)
		} else if isFramed {
			c, err = dialDatagrams(memcachedCodec{}, t.packets)
			// One that is alone in its datagram is a frame that a GPU answers.
			choices, depth = framed(), 1
		} else {
			c, err = dial(memcachedCodec{}, t.memcached)
			choices = p.profile.memcached
		}
		if err != nil {
			return nil, err
		}
		w := newWorker(i, p.keys, rand.New(rand.NewSource(random.Int63())), choices)
		participants = append(participants,
			&participant{plan: p, worker: w, client: c, names: names, start: start,
				depth: depth, framed: isFramed})
	}
	return participants, nil
}

func together(participants []*participant, f func(*participant) error) error {
	errs := make([]error, len(participants))
	var group sync.WaitGroup
	for i := range participants {
		group.Add(1)
		go func(i int) {
			defer group.Done()
			errs[i] = f(participants[i])
		}(i)
	}
	group.Wait()
	for i, err := range errs {
		if err != nil {
			return fmt.Errorf("client %d: %w", i, err)
		}
	}
	return nil
}

// A participant is one client of one history with what it saw.
type participant struct {
	plan    plan
	worker  *worker
	client  *client
	names   []string
	start   time.Time
	depth   int // requests in one pipeline, at most
	framed  bool
	history []porcupine.Operation
	// Of the pipeline that is under way.
	unanswered []*request
	called     int64
}

func (s *participant) burst(number int) error {
	flushAt := -1
	if s.plan.flushMiddle && s.worker.id == 0 && number == s.plan.profile.bursts/2 {
		flushAt = s.plan.profile.perBurst / 2
	}
	for sent := 0; sent < s.plan.profile.perBurst; {
		if flushAt >= 0 && sent >= flushAt {
			flushAt = -1
			if err := s.pipeline([]*request{s.flush()}); err != nil {
				return err
			}
		}
		depth := 1 + s.worker.random.Intn(s.depth)
		requests := make([]*request, depth)
		for i := range requests {
			requests[i] = s.worker.draw(s.key(number))
		}
		if err := s.pipeline(requests); err != nil {
			return err
		}
		sent += depth
	}
	return nil
}

func (s *participant) key(burst int) int {
	// Those whose requests come in frames also look at what was not written lately.
	seldom := 8
	if s.framed {
		seldom = 2
	}
	if s.worker.random.Intn(seldom) == 0 {
		return s.worker.random.Intn(s.plan.keys)
	}
	hot := s.plan.profile.hotKeys
	return (burst*hot + s.worker.random.Intn(hot)) % s.plan.keys
}

func (s *participant) flush() *request {
	q := &request{}
	for key := 0; key < s.plan.keys; key++ {
		q.inputs = append(q.inputs, s.worker.input(opFlush, key))
	}
	return q
}

// pipeline sends the requests in one write, then reads the replies.
func (s *participant) pipeline(requests []*request) error {
	for _, q := range requests {
		s.client.buffer = s.client.codec.append(s.client.buffer, q, s.names)
	}
	call := time.Since(s.start).Nanoseconds()
	s.unanswered, s.called = requests, call
	if err := s.client.send(); err != nil {
		return err
	}
	for _, q := range requests {
		outs, err := s.client.codec.read(s.client.reader, q, s.names)
		if err != nil {
			return err
		}
		s.unanswered = s.unanswered[1:]
		s.record(q, outs, call, time.Since(s.start).Nanoseconds())
	}
	return nil
}

func (s *participant) record(q *request, outs []*output, call, ret int64) {
	for i, in := range q.inputs {
		in.call, outs[i].ret = call, ret
		if in.kind == opGets && outs[i].sight == seenPresent {
			s.worker.versions[in.key] = outs[i].version
		}
		s.history = append(s.history, porcupine.Operation{
			ClientId: in.client, Input: in, Call: call, Output: outs[i], Return: ret})
	}
}
