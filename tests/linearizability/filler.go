package main

import (
	"fmt"
	"math/rand"
	"strings"
	"sync"
)

// Fillers write other keys in pipelines while a history is made, a share in every burst: new ones,
// so that the index grows; some again in another size and some deleted, so that memory churns.
type fillers struct {
	tokens []chan int
	group  sync.WaitGroup
	mutex  sync.Mutex
	err    error
	share  int
}

const (
	fillerCount    = 2
	fillerPipeline = 200
)

func startFillers(p plan, t target) (*fillers, error) {
	f := &fillers{share: p.fill / p.profile.bursts / fillerCount}
	for i := 0; i < fillerCount; i++ {
		var c *client
		var err error
		if t.resp != "" {
			c, err = dial(respCodec{}, t.resp)
		} else {
			c, err = dial(memcachedCodec{}, t.memcached)
		}
		if err != nil {
			f.stop()
			return nil, err
		}
		tokens := make(chan int, p.profile.bursts)
		f.tokens = append(f.tokens, tokens)
		one := &filler{owner: f, client: c, large: p.largeFill,
			prefix: fmt.Sprintf("fill:%d:%x:%d:", p.number, p.seed&0xffff, i),
			random: rand.New(rand.NewSource(p.seed + int64(i)))}
		f.group.Add(1)
		go one.run(tokens)
	}
	return f, nil
}

func (f *fillers) burst() {
	for _, tokens := range f.tokens {
		tokens <- f.share
	}
}

// stop waits for what is under way.
func (f *fillers) stop() error {
	for _, tokens := range f.tokens {
		close(tokens)
	}
	f.group.Wait()
	return f.err
}

type filler struct {
	owner  *fillers
	client *client
	large  bool
	prefix string
	random *rand.Rand
	next   int
}

func (f *filler) run(tokens <-chan int) {
	defer f.owner.group.Done()
	defer f.client.conn.Close()
	failed := false
	for share := range tokens {
		for sent := 0; sent < share && !failed; sent += fillerPipeline {
			if err := f.pipeline(); err != nil {
				f.owner.mutex.Lock()
				f.owner.err = fmt.Errorf("filler: %w", err)
				f.owner.mutex.Unlock()
				failed = true
			}
		}
	}
}

var fillerBytes = []byte(strings.Repeat("isotherm", 16<<10))

func (f *filler) pipeline() error {
	for i := 0; i < fillerPipeline; i++ {
		switch p := f.random.Intn(20); {
		case p == 0 && f.next > 0:
			f.client.buffer = f.client.codec.appendDelete(f.client.buffer, f.key(f.random.Intn(f.next)))
		case p == 1 && f.next > 0:
			f.set(f.random.Intn(f.next))
		default:
			f.set(f.next)
			f.next++
		}
	}
	if err := f.client.send(); err != nil {
		return err
	}
	for i := 0; i < fillerPipeline; i++ {
		if err := f.discard(); err != nil {
			return err
		}
	}
	return nil
}

func (f *filler) key(number int) string { return f.prefix + fmt.Sprint(number) }

func (f *filler) set(number int) {
	size := 8 + f.random.Intn(56)
	if f.large {
		// Each doubling of the size is as likely as any other, up to 8 KB; few are larger.
		size = f.random.Intn(8 << f.random.Intn(11))
		if f.random.Intn(500) == 0 {
			size = f.random.Intn(len(fillerBytes))
		}
	}
	f.client.buffer = f.client.codec.appendSet(f.client.buffer, f.key(number), fillerBytes[:size])
}

func (f *filler) discard() error {
	line, err := readLine(f.client.reader)
	if err != nil {
		return err
	}
	switch line {
	case "+OK", ":0", ":1", "STORED", "DELETED", "NOT_FOUND":
		return nil
	}
	if f.large && (strings.HasPrefix(line, "-OOM ") || strings.HasPrefix(line, "SERVER_ERROR out")) {
		return nil
	}
	return fmt.Errorf("unexpected reply %q", line)
}
