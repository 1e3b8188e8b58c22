package report

import (
	"context"
	"errors"
	"strings"
	"sync"
)

// hashes are the whole ones of commits of which a list has the beginning.
type hashes struct {
	mu   sync.Mutex
	kept map[string]string
}

const (
	// mostHashes bounds what is remembered, and mostWhole how many are asked for with one list.
	mostHashes = 10_000
	mostWhole  = 60
	// wholeHash is how long a SHA-1 is, in hexadecimal.
	wholeHash = 40
)

func (h *hashes) get(key string) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.kept[key]
}

func (h *hashes) put(key, hash string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.kept == nil || len(h.kept) >= mostHashes {
		h.kept = map[string]string{}
	}
	h.kept[key] = hash
}

// complete has each pull request have its whole head. Each is asked for once, the newest first, and so
// many with one list; the others come with the next one.
func (p *poster) complete(ctx context.Context, listed []PullRequest) ([]PullRequest, error) {
	var open []PullRequest
	asked := 0
	for _, one := range listed {
		key := p.repository.url + " " + one.Head
		whole := one.Head
		if len(whole) < wholeHash {
			whole = p.hosts.hashes.get(key)
		}
		if whole == "" {
			if asked == mostWhole {
				continue
			}
			asked++
			var err error
			if whole, err = p.askWhole(ctx, one.Head); err != nil {
				return nil, err
			}
			if whole == "" {
				continue
			}
			p.hosts.hashes.put(key, whole)
		}
		one.Head = whole
		open = append(open, one)
	}
	return open, nil
}

// askWhole asks for the hash of a commit; it is empty where the host has it no more.
func (p *poster) askWhole(ctx context.Context, short string) (string, error) {
	a, err := p.get(ctx, readsHead, p.review.whole(p.repository, short))
	var gone *NotFoundError
	if errors.As(err, &gone) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	whole, err := p.review.hash(a.body)
	if err == nil && (len(whole) != wholeHash || !strings.HasPrefix(whole, short)) {
		err = errors.New("it names another commit")
	}
	if err != nil {
		return "", p.unreadable(readsHead, err)
	}
	return whole, nil
}
