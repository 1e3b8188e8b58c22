package webhook

import "sync/atomic"

// once tells the beginning of something that goes on, so that it is logged once.
type once struct{ going atomic.Bool }

// begins says whether it has just begun.
func (o *once) begins() bool { return !o.going.Swap(true) }

// ends has the next beginning told again.
func (o *once) ends() { o.going.Store(false) }
