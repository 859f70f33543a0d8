package main

import "sort"

// state is what one user has read of one channel.
type state struct {
	channel uint64
	// 0: never read.
	message  uint64
	version  uint64
	mentions uint32
}

// store keeps read states in memory and forgets those seen least recently. There is no database behind it: what
// is forgotten is gone. All methods may be called by many goroutines at once.
type store interface {
	// ack moves a position forward. It returns the user's version, the state as it is now, and whether anything changed.
	ack(user, channel, message uint64) (version uint64, now state, applied bool)
	// mention counts a message that mentions the user, once. It returns whether anything changed.
	mention(user, channel, message uint64, count uint32) bool
	// read appends all states of a user, by channel, and returns the user's version.
	read(user uint64, to []state) (version uint64, states []state)
	totals() totals
}

// totals is what a store holds and has forgotten.
type totals struct {
	users, states, evicted uint64
}

func (t *totals) add(other totals) {
	t.users += other.users
	t.states += other.states
	t.evicted += other.evicted
}

// shards is how many parts with a lock of their own a store has.
const shards = 64

// shardOf spreads users by the top bits: maps take the low ones of a hash of their own.
func shardOf(user uint64) int { return int(mix(user) >> 58) }

// mix is the finalizer of SplitMix64.
func mix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}

// place is a read state's name.
type place struct {
	user, channel uint64
}

// mention is one that was counted.
type mention struct {
	message uint64
	count   uint32
}

// remembered is how many counted mentions a state remembers, so that none of them counts twice.
const remembered = 8

// remember adds a mention to those that were counted, oldest first, and says whether it is to be counted: it is not
// among them, nor older than all of a full memory. What comes back may be the same slice.
func remember(counted []mention, new mention) ([]mention, bool) {
	at := sort.Search(len(counted), func(i int) bool { return counted[i].message >= new.message })
	switch {
	case at < len(counted) && counted[at].message == new.message:
		return counted, false
	case len(counted) < remembered:
		counted = append(counted, mention{})
		copy(counted[at+1:], counted[at:])
		counted[at] = new
	case at == 0:
		return counted, false
	default:
		copy(counted, counted[1:at])
		counted[at-1] = new
	}
	return counted, true
}

// forget drops the mentions up to a message that was read, and returns what is left of them and of the count.
func forget(counted []mention, read uint64, count uint32) ([]mention, uint32) {
	at := sort.Search(len(counted), func(i int) bool { return counted[i].message > read })
	if at == 0 {
		if len(counted) == 0 {
			return counted, 0
		}
		// What is no longer remembered may be on either side of the message.
		return counted, count
	}
	left := uint32(0)
	for _, one := range counted[at:] {
		left = addCounts(left, one.count)
	}
	return counted[:copy(counted, counted[at:])], min(left, count)
}

// addCounts stays at the most there is.
func addCounts(a, b uint32) uint32 {
	if sum := a + b; sum >= a {
		return sum
	}
	return ^uint32(0)
}
