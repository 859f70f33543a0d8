package main

import (
	"cmp"
	"container/list"
	"slices"
	"sync"
)

// listStore is what one writes first, and what Discord's Go service of 2020 had at last: many LRU caches of read
// states, each a map to the elements of a container/list, whose values are pointers to the states.
type listStore struct {
	shards [shards]listShard
}

type listShard struct {
	sync.Mutex
	capacity int
	states   map[place]*list.Element
	users    map[uint64]*listUser
	// Newest first; values are *listState.
	order   *list.List
	evicted uint64
}

type listState struct {
	state
	user    uint64
	counted []mention
	// The next state of the same user.
	sibling *listState
	element *list.Element
}

type listUser struct {
	version uint64
	first   *listState
}

func newListStore(capacity int) *listStore {
	store := &listStore{}
	for i := range store.shards {
		store.shards[i] = listShard{
			capacity: max(1, capacity/shards),
			states:   map[place]*list.Element{},
			users:    map[uint64]*listUser{},
			order:    list.New(),
		}
	}
	return store
}

func (s *listStore) ack(user, channel, message uint64) (uint64, state, bool) {
	shard := &s.shards[shardOf(user)]
	shard.Lock()
	defer shard.Unlock()
	owner, found := shard.get(user, channel)
	if message <= found.message {
		return owner.version, found.state, false
	}
	owner.version++
	found.message = message
	found.version = owner.version
	found.counted, found.mentions = forget(found.counted, message, found.mentions)
	return owner.version, found.state, true
}

func (s *listStore) mention(user, channel, message uint64, count uint32) bool {
	shard := &s.shards[shardOf(user)]
	shard.Lock()
	defer shard.Unlock()
	owner, found := shard.get(user, channel)
	if message <= found.message {
		return false
	}
	counted, applied := remember(found.counted, mention{message, count})
	if !applied {
		return false
	}
	owner.version++
	found.version = owner.version
	found.counted = counted
	found.mentions = addCounts(found.mentions, count)
	return true
}

func (s *listStore) read(user uint64, to []state) (uint64, []state) {
	shard := &s.shards[shardOf(user)]
	shard.Lock()
	defer shard.Unlock()
	owner := shard.users[user]
	if owner == nil {
		return 0, to
	}
	from := len(to)
	for one := owner.first; one != nil; one = one.sibling {
		shard.order.MoveToFront(one.element)
		to = append(to, one.state)
	}
	slices.SortFunc(to[from:], func(a, b state) int { return cmp.Compare(a.channel, b.channel) })
	return owner.version, to
}

func (s *listStore) totals() (sum totals) {
	for i := range s.shards {
		shard := &s.shards[i]
		shard.Lock()
		sum.add(totals{uint64(len(shard.users)), uint64(len(shard.states)), shard.evicted})
		shard.Unlock()
	}
	return sum
}

// get finds a state or makes it, as the newest.
func (s *listShard) get(user, channel uint64) (*listUser, *listState) {
	if element := s.states[place{user, channel}]; element != nil {
		s.order.MoveToFront(element)
		return s.users[user], element.Value.(*listState)
	}
	if len(s.states) >= s.capacity {
		s.evict()
	}
	owner := s.users[user]
	if owner == nil {
		owner = &listUser{}
		s.users[user] = owner
	}
	made := &listState{user: user, sibling: owner.first}
	made.channel = channel
	owner.first = made
	made.element = s.order.PushFront(made)
	s.states[place{user, channel}] = made.element
	return owner, made
}

func (s *listShard) evict() {
	oldest := s.order.Remove(s.order.Back()).(*listState)
	delete(s.states, place{oldest.user, oldest.channel})
	owner := s.users[oldest.user]
	link := &owner.first
	for *link != oldest {
		link = &(*link).sibling
	}
	*link = oldest.sibling
	if owner.first == nil {
		delete(s.users, oldest.user)
	}
	s.evicted++
}
