package main

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
)

// stores are made anew for each test, with room for this many states.
func stores(t *testing.T, capacity int, test func(t *testing.T, store store)) {
	for _, layout := range []string{"list", "flat"} {
		t.Run(layout, func(t *testing.T) {
			store, err := newStore(layout, capacity)
			if err != nil {
				t.Fatal(err)
			}
			test(t, store)
		})
	}
}

// model is a store that is as plain as can be.
type model struct {
	versions map[uint64]uint64
	states   map[place]*modelState
}

type modelState struct {
	state
	counted []mention
}

func (m *model) get(user, channel uint64) *modelState {
	name := place{user, channel}
	if m.states[name] == nil {
		m.states[name] = &modelState{state: state{channel: channel}}
	}
	return m.states[name]
}

func (m *model) ack(user, channel, message uint64) bool {
	one := m.get(user, channel)
	if message <= one.message {
		return false
	}
	m.versions[user]++
	one.message, one.version = message, m.versions[user]
	older := slices.ContainsFunc(one.counted, func(c mention) bool { return c.message <= message })
	one.counted = slices.DeleteFunc(one.counted, func(c mention) bool { return c.message <= message })
	switch {
	case len(one.counted) == 0:
		one.mentions = 0
	case older:
		one.mentions = 0
		for _, c := range one.counted {
			one.mentions += c.count
		}
	}
	return true
}

func (m *model) mention(user, channel, message uint64, count uint32) bool {
	one := m.get(user, channel)
	known := slices.ContainsFunc(one.counted, func(c mention) bool { return c.message == message })
	full := len(one.counted) == remembered && message < one.counted[0].message
	if message <= one.message || known || full {
		return false
	}
	one.counted = append(one.counted, mention{message, count})
	slices.SortFunc(one.counted, func(a, b mention) int { return cmp.Compare(a.message, b.message) })
	if len(one.counted) > remembered {
		one.counted = one.counted[1:]
	}
	one.mentions += count
	m.versions[user]++
	one.version = m.versions[user]
	return true
}

func (m *model) read(user uint64) []state {
	var states []state
	for name, one := range m.states {
		if name.user == user {
			states = append(states, one.state)
		}
	}
	slices.SortFunc(states, func(a, b state) int { return cmp.Compare(a.channel, b.channel) })
	return states
}

func TestRandomOperationsLeaveWhatAPlainModelHas(t *testing.T) {
	stores(t, 1_000_000, func(t *testing.T, store store) {
		random := rand.New(rand.NewPCG(1, 2))
		model := model{map[uint64]uint64{}, map[place]*modelState{}}
		for n := range 200_000 {
			// A user of many channels among those of a few.
			user := 1 + random.Uint64N(50)
			channel := 1 + random.Uint64N(3*user*user)
			message := 1 + random.Uint64N(60)
			if random.IntN(2) == 0 {
				_, now, applied := store.ack(user, channel, message)
				if want := model.ack(user, channel, message); applied != want || now != model.get(user, channel).state {
					t.Fatalf("%d: ack: %v %+v, not %v %+v", n, applied, now, want, *model.get(user, channel))
				}
			} else {
				count := 1 + random.Uint32N(3)
				applied := store.mention(user, channel, message, count)
				if want := model.mention(user, channel, message, count); applied != want {
					t.Fatalf("%d: mention: %v, not %v", n, applied, want)
				}
			}
		}
		states := uint64(0)
		for user := uint64(1); user <= 50; user++ {
			version, found := store.read(user, nil)
			if want := model.read(user); version != model.versions[user] || !slices.Equal(found, want) {
				t.Fatalf("user %d: version %d, %+v, not %d, %+v", user, version, found, model.versions[user], want)
			}
			states += uint64(len(found))
		}
		if held := store.totals(); held != (totals{50, states, 0}) {
			t.Fatalf("totals: %+v, not %d states", held, states)
		}
	})
}

func TestThoseSeenLeastRecentlyAreForgottenFirst(t *testing.T) {
	// Two states for each shard; users that share one.
	var users []uint64
	for user := uint64(1); len(users) < 3; user++ {
		if shardOf(user) == 7 {
			users = append(users, user)
		}
	}
	stores(t, 2*shards, func(t *testing.T, store store) {
		store.mention(users[0], 1, 5, 1)
		store.ack(users[1], 1, 5)
		store.read(users[0], nil)
		store.ack(users[2], 1, 5)
		for i, want := range []int{1, 0, 1} {
			if _, found := store.read(users[i], nil); len(found) != want {
				t.Errorf("user %d has %d states, not %d", i, len(found), want)
			}
		}
		store.ack(users[1], 1, 5)
		store.ack(users[1], 2, 5)
		if held := store.totals(); held != (totals{1, 2, 3}) {
			t.Errorf("totals: %+v", held)
		}
		// What was forgotten begins anew.
		if !store.mention(users[0], 1, 5, 1) {
			t.Error("the mention of a user who was forgotten is known")
		}
	})
}

func TestPlacesOfForgottenStatesAreUsedAgain(t *testing.T) {
	store := newFlatStore(100 * shards)
	random := rand.New(rand.NewPCG(3, 4))
	grown := 0
	for n := range 400_000 {
		user := 1 + random.Uint64N(100_000)
		store.mention(user, 1+random.Uint64N(40), uint64(n+1), 1)
		if n == 100_000 {
			grown = chunks(store)
		}
	}
	if now := chunks(store); now > grown+grown/10 {
		t.Errorf("%d chunks after 100,000 operations, %d after 400,000", grown, now)
	}
}

func chunks(store *flatStore) (sum int) {
	for i := range store.shards {
		shard := &store.shards[i]
		sum += len(shard.users.chunks) + len(shard.counted.chunks)
		for class := range shard.runs {
			sum += len(shard.runs[class].chunks)
		}
	}
	return sum
}

func TestEverySizeOfRunHoldsItsRowsWithLittleWaste(t *testing.T) {
	for rows := 1; rows <= 100_000; rows++ {
		class := classOf(rows)
		size := sizeOf(class)
		if size < rows || size > rows+rows/4 {
			t.Fatalf("%d rows are in a run of %d", rows, size)
		}
		if class > 0 && sizeOf(class-1) >= rows {
			t.Fatalf("%d rows would be in a run of %d", rows, sizeOf(class-1))
		}
	}
}

func TestManyGoroutinesLoseNothing(t *testing.T) {
	stores(t, 1_000_000, func(t *testing.T, store store) {
		var all sync.WaitGroup
		for worker := range uint64(8) {
			all.Go(func() {
				for message := range uint64(2000) {
					store.mention(1, 1+message%50, 1+8*message+worker, 1)
					store.ack(2+worker, 1+message, 1+message)
				}
			})
		}
		all.Wait()
		_, states := store.read(1, nil)
		if len(states) != 50 {
			t.Fatalf("%d channels", len(states))
		}
		for worker := range uint64(8) {
			if version, states := store.read(2+worker, nil); version != 2000 || len(states) != 2000 {
				t.Errorf("worker %d: version %d, %d states", worker, version, len(states))
			}
		}
	})
}
