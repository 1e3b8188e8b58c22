package confine

import (
	"bufio"
	"crypto/sha256"
	"sync"
	"time"
)

// budget is processor time that several children share. A nil budget is endless.
type budget struct {
	total time.Duration

	mu   sync.Mutex
	used time.Duration
}

func (b *budget) spent() bool {
	if b == nil {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used >= b.total
}

func (b *budget) spend(cpu time.Duration) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used += cpu
}

// mostFailures bounds what is remembered; then all of it is forgotten.
const mostFailures = 256

// failures are the questions that took more than a child may, so that a commit that
// stays does not cost as much at each pass.
type failures struct {
	mu    sync.Mutex
	known map[[sha256.Size]byte]*LimitError
}

func (f *failures) find(asked [sha256.Size]byte) *LimitError {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.known[asked]
}

func (f *failures) note(asked [sha256.Size]byte, err *LimitError) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.known == nil || len(f.known) >= mostFailures {
		f.known = map[[sha256.Size]byte]*LimitError{}
	}
	f.known[asked] = err
}

// sum is equal for equal questions.
func sum(job string, question any) (asked [sha256.Size]byte, err error) {
	hash := sha256.New()
	out := bufio.NewWriter(hash)
	if err := write(out, []any{job, question}); err != nil {
		return asked, err
	}
	if err := out.Flush(); err != nil {
		return asked, err
	}
	return [sha256.Size]byte(hash.Sum(nil)), nil
}
