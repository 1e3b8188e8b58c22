package report

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"maps"
	"slices"
	"sync"
	"time"
)

// identities are who tokens are of, by what opens the host, for as long as a user keeps a name.
type identities struct {
	mu   sync.Mutex
	kept map[[sha256.Size]byte]identity
}

type identity struct {
	name string
	ends time.Time
}

const (
	// identityLasts is how long a token is taken to be of the same user under the same name.
	identityLasts = time.Hour
	// mostIdentities bounds what is remembered.
	mostIdentities = 1000
)

func (i *identities) get(of [sha256.Size]byte, now time.Time) string {
	i.mu.Lock()
	defer i.mu.Unlock()
	maps.DeleteFunc(i.kept, func(_ [sha256.Size]byte, known identity) bool { return !now.Before(known.ends) })
	return i.kept[of].name
}

func (i *identities) put(of [sha256.Size]byte, name string, now time.Time) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.kept == nil || len(i.kept) >= mostIdentities {
		i.kept = map[[sha256.Size]byte]identity{}
	}
	i.kept[of] = identity{name: name, ends: now.Add(identityLasts)}
}

// opens is a sum of what opens a host: who has the same Secret is the same user there.
func opens(provider string, r repository, secret map[string][]byte) [sha256.Size]byte {
	sum := sha256.New()
	parts := []string{provider, r.root()}
	for _, key := range slices.Sorted(maps.Keys(secret)) {
		parts = append(parts, key, string(secret[key]))
	}
	for _, part := range parts {
		one := sha256.Sum256([]byte(part))
		sum.Write(one[:])
	}
	return [sha256.Size]byte(sum.Sum(nil))
}

// named are credentials that know themselves how the host names who they are of.
type named interface {
	self(ctx context.Context) (string, error)
}

// self is the user that the token is of, as the host names authors of comments. The host is asked
// once.
func (p *poster) self(ctx context.Context) (string, error) {
	if known := p.hosts.identities.get(p.opens, p.hosts.Now()); known != "" {
		return known, nil
	}
	name, err := p.askSelf(ctx)
	if err == nil {
		p.hosts.identities.put(p.opens, name, p.hosts.Now())
	}
	return name, err
}

func (p *poster) askSelf(ctx context.Context) (string, error) {
	if known, is := p.credentials.(named); is {
		return known.self(ctx)
	}
	task := readsSelf(p.review.selfRight)
	a, err := p.get(ctx, task, p.review.self(p.repository))
	if err != nil {
		return "", err
	}
	name, err := p.review.name(a)
	if err == nil && name == "" {
		err = errNobody
	}
	if err != nil {
		return "", p.unreadable(task, err)
	}
	return name, nil
}

// readsSelf is to ask who the token is of.
func readsSelf(right string) Task {
	return Task{What: "look up the token's own user, to know its comments", Right: cmp.Or(right, "read its own user")}
}

// login is the name of a user on GitHub, Gitea and Forgejo.
func login(a answer) (string, error) {
	var user githubUser
	err := json.Unmarshal(a.body, &user)
	return user.Login, err
}
