package awssim

import "sync"

// EventKind is what happened to an instance.
type EventKind string

// The kinds of events, in the order of an instance's life.
const (
	Launched     EventKind = "Launched"     // exists, pending
	Running      EventKind = "Running"      // pending is over
	Stopping     EventKind = "Stopping"     // was told to stop; Running comes again when it is started
	ShuttingDown EventKind = "ShuttingDown" // was told to end
	Terminated   EventKind = "Terminated"   // is gone; its description stays for a while
)

// Event is a change of an instance's state, with the instance as it was right
// after it.
type Event struct {
	Kind     EventKind
	Instance Instance
}

// dispatcher hands events to subscribers in order, from one goroutine that lives
// only while there is something to hand out.
type dispatcher struct {
	mu          sync.Mutex
	subscribers []func(Event)
	queue       []Event
	running     bool
}

func (d *dispatcher) subscribe(f func(Event)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.subscribers = append(d.subscribers, f)
}

// publish never blocks and never calls a subscriber itself.
func (d *dispatcher) publish(e Event) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.queue = append(d.queue, e)
	if !d.running {
		d.running = true
		go d.drain()
	}
}

func (d *dispatcher) drain() {
	for {
		e, subscribers, ok := d.next()
		if !ok {
			return
		}
		for _, f := range subscribers {
			f(e)
		}
	}
}

func (d *dispatcher) next() (Event, []func(Event), bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.queue) == 0 {
		d.running = false
		return Event{}, nil, false
	}
	e := d.queue[0]
	d.queue = d.queue[1:]
	return e, d.subscribers[:len(d.subscribers):len(d.subscribers)], true
}
