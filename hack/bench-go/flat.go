package main

import (
	"cmp"
	"slices"
	"sync"
)

// flatStore is the best that we can write in Go: nothing in it holds a pointer but the few slices of chunks, so
// that a collection has next to nothing to look at however many states there are. The states of a user lie side by
// side, by channel; users are forgotten whole.
type flatStore struct {
	shards [shards]flatShard
}

type flatShard struct {
	sync.Mutex
	capacity int
	// User to place in users. Maps without pointers are not looked into.
	index map[uint64]uint32
	users slab[flatUser]
	runs  [classes]runs
	// The newest counted mention of a state, as a place in counted; only of states that have mentions.
	heads   map[place]uint32
	counted slab[countedMention]
	states  int
	evicted uint64
	scratch [remembered]mention
}

// flatUser is 32 bytes. Users are in a ring from the one seen last to the one seen first; place 0 is its knot.
type flatUser struct {
	id           uint64
	version      uint32
	newer, older uint32
	length       uint32
	run          uint32
	class        uint8
}

// countedMention is one of a chain from the newest to the oldest; 0 ends it.
type countedMention struct {
	mention
	next uint32
}

func newFlatStore(capacity int) *flatStore {
	store := &flatStore{}
	for i := range store.shards {
		shard := &store.shards[i]
		shard.capacity = max(1, capacity/shards)
		shard.index = map[uint64]uint32{}
		shard.heads = map[place]uint32{}
		for class := range shard.runs {
			shard.runs[class] = runsOf(class)
		}
		shard.users.take()
		shard.counted.take()
	}
	return store
}

func (s *flatStore) ack(user, channel, message uint64) (uint64, state, bool) {
	shard := &s.shards[shardOf(user)]
	shard.Lock()
	defer shard.Unlock()
	owner, found := shard.get(user, channel)
	if message <= found.message {
		return uint64(owner.version), found.state(), false
	}
	owner.version++
	found.message = message
	found.version = owner.version
	if found.mentions > 0 {
		var left []mention
		left, found.mentions = forget(shard.recall(user, channel), message, found.mentions)
		shard.keep(user, channel, left)
	}
	return uint64(owner.version), found.state(), true
}

func (s *flatStore) mention(user, channel, message uint64, count uint32) bool {
	shard := &s.shards[shardOf(user)]
	shard.Lock()
	defer shard.Unlock()
	owner, found := shard.get(user, channel)
	if message <= found.message {
		return false
	}
	var counted []mention
	if found.mentions > 0 {
		counted = shard.recall(user, channel)
	} else {
		counted = shard.scratch[:0]
	}
	counted, applied := remember(counted, mention{message, count})
	if !applied {
		return false
	}
	shard.keep(user, channel, counted)
	owner.version++
	found.version = owner.version
	found.mentions = addCounts(found.mentions, count)
	return true
}

func (s *flatStore) read(user uint64, to []state) (uint64, []state) {
	shard := &s.shards[shardOf(user)]
	shard.Lock()
	defer shard.Unlock()
	at, there := shard.index[user]
	if !there {
		return 0, to
	}
	shard.touch(at)
	owner := shard.users.at(at)
	for _, row := range shard.rows(owner) {
		to = append(to, row.state())
	}
	return uint64(owner.version), to
}

func (s *flatStore) totals() (sum totals) {
	for i := range s.shards {
		shard := &s.shards[i]
		shard.Lock()
		sum.add(totals{uint64(len(shard.index)), uint64(shard.states), shard.evicted})
		shard.Unlock()
	}
	return sum
}

func (r *row) state() state { return state{r.channel, r.message, uint64(r.version), r.mentions} }

func (s *flatShard) rows(user *flatUser) []row {
	return s.runs[user.class].at(user.run)[:user.length]
}

// get finds a state or makes it; its user becomes the newest.
func (s *flatShard) get(user, channel uint64) (*flatUser, *row) {
	at, there := s.index[user]
	if there {
		s.touch(at)
	} else {
		at = s.addUser(user)
	}
	owner := s.users.at(at)
	rows := s.rows(owner)
	place, there := slices.BinarySearchFunc(rows, channel, func(r row, channel uint64) int {
		return cmp.Compare(r.channel, channel)
	})
	if there {
		return owner, &rows[place]
	}
	s.states++
	for s.states > s.capacity && s.users.at(0).newer != at {
		s.evict()
	}
	rows = s.grow(owner)
	copy(rows[place+1:], rows[place:])
	rows[place] = row{channel: channel}
	return owner, &rows[place]
}

func (s *flatShard) addUser(user uint64) uint32 {
	at := s.users.take()
	owner := s.users.at(at)
	*owner = flatUser{id: user}
	owner.run = s.runs[0].take()
	s.index[user] = at
	s.link(at)
	return at
}

// grow makes room for one row more behind the others.
func (s *flatShard) grow(owner *flatUser) []row {
	class := classOf(int(owner.length) + 1)
	if class != int(owner.class) {
		run := s.runs[class].take()
		copy(s.runs[class].at(run), s.rows(owner))
		s.runs[owner.class].give(owner.run)
		owner.class, owner.run = uint8(class), run
	}
	owner.length++
	return s.rows(owner)
}

// evict forgets the user who was seen first. The knot's newer is the oldest, its older the newest.
func (s *flatShard) evict() {
	at := s.users.at(0).newer
	user := s.users.at(at)
	for _, row := range s.rows(user) {
		if row.mentions > 0 {
			s.keep(user.id, row.channel, nil)
		}
	}
	s.states -= int(user.length)
	s.evicted += uint64(user.length)
	s.runs[user.class].give(user.run)
	delete(s.index, user.id)
	s.unlink(at)
	s.users.give(at)
}

func (s *flatShard) touch(at uint32) {
	if s.users.at(0).older != at {
		s.unlink(at)
		s.link(at)
	}
}

// link makes a user the newest.
func (s *flatShard) link(at uint32) {
	knot, user := s.users.at(0), s.users.at(at)
	user.newer, user.older = 0, knot.older
	s.users.at(knot.older).newer = at
	knot.older = at
}

func (s *flatShard) unlink(at uint32) {
	user := s.users.at(at)
	s.users.at(user.newer).older = user.older
	s.users.at(user.older).newer = user.newer
}

// recall is the counted mentions of a state, oldest first, until the next call.
func (s *flatShard) recall(user, channel uint64) []mention {
	counted := s.scratch[:0]
	for at := s.heads[place{user, channel}]; at != 0; at = s.counted.at(at).next {
		counted = append(counted, s.counted.at(at).mention)
	}
	slices.Reverse(counted)
	return counted
}

// keep puts these in place of the counted mentions of a state.
func (s *flatShard) keep(user, channel uint64, counted []mention) {
	name := place{user, channel}
	for at := s.heads[name]; at != 0; {
		next := s.counted.at(at).next
		s.counted.give(at)
		at = next
	}
	if len(counted) == 0 {
		delete(s.heads, name)
		return
	}
	head := uint32(0)
	for _, one := range counted {
		at := s.counted.take()
		*s.counted.at(at) = countedMention{one, head}
		head = at
	}
	s.heads[name] = head
}
