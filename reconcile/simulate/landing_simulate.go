package simulate

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	kjson "sigs.k8s.io/json"

	"github.com/plumbline-dev/plumbline/confine"
	"github.com/plumbline-dev/plumbline/provision/cloud/offers"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
)

// catalogValidFor is how long EC2's instance types are reused; reading them takes about 20 requests.
const catalogValidFor = 12 * time.Hour

// Catalogs contains what EC2 offers, by region, packed for child processes.
type Catalogs struct {
	// Ask reads the Catalog of a region from EC2.
	Ask func(ctx context.Context, region string) (*offers.Catalog, error)

	mu    sync.Mutex
	known map[string]packed
}

// packed is a Catalog as gzipped JSON.
type packed struct {
	text string
	at   time.Time
}

// of returns the Catalog of a region, at most half a day old.
func (c *Catalogs) of(ctx context.Context, region string, now time.Time) (string, error) {
	if region == "" {
		return "", errors.New("no node has a region (label topology.kubernetes.io/region), so EC2 cannot be queried")
	}
	c.mu.Lock()
	defer c.mu.Unlock() // others that wait need the same Catalog
	if known, ok := c.known[region]; ok && now.Before(known.at.Add(catalogValidFor)) {
		return known.text, nil
	}
	found, err := c.Ask(ctx, region)
	if err != nil {
		return "", fmt.Errorf("query EC2 in %s for its instance types: %w", region, err)
	}
	text, err := pack(found)
	if err != nil {
		return "", err
	}
	if c.known == nil {
		c.known = map[string]packed{}
	}
	c.known[region] = packed{text, now}
	return text, nil
}

func pack(value any) (string, error) {
	text := &bytes.Buffer{}
	out := gzip.NewWriter(text)
	if err := json.NewEncoder(out).Encode(value); err != nil {
		return "", fmt.Errorf("pack a question: %w", err)
	}
	err := out.Close()
	return text.String(), err
}

func unpack(text string, into any) error {
	in, err := gzip.NewReader(strings.NewReader(text))
	if err != nil {
		return err
	}
	whole, err := io.ReadAll(in)
	if err != nil {
		return err
	}
	// Integers stay integers, as in a cluster's definitions.
	return kjson.UnmarshalCaseSensitivePreserveInts(whole, into)
}

const (
	// JobName is the name of Job.
	JobName = "landing"
	// what names it in errors.
	what = "the simulation of where pods can go"
	// longestReason is the maximum length in bytes of Karpenter's reason for a pod.
	longestReason = 256
)

// answered is the result of a child process: the needed part of an Outcome.
type answered struct {
	Nowhere []Stranded
	Unknown []string
	Failed  string
	// Unlaunchable and Undecided are those of an Outcome.
	Unlaunchable []string
	Undecided    map[string]string
}

// Job simulates in a child process, because Karpenter's library may exit the process and use any amount of memory,
// which must not affect the daemon.
func Job(t *confine.Talk) error {
	message, err := t.Receive()
	if err != nil {
		return err
	}
	question, _ := message.(map[string]any)
	text := func(name string) string {
		found, _ := question[name].(string)
		return found
	}
	c, commit, catalog := &Capture{}, Commit{}, &offers.Catalog{}
	if err := errors.Join(unpack(text("capture"), c), unpack(text("commit"), &commit), unpack(text("catalog"), catalog)); err != nil {
		return err
	}
	answer, err := pack(lands(context.Background(), c, catalog, commit)) //nolint:forbidigo // a child has no other context
	if err != nil {
		return err
	}
	return t.Send(answer)
}

func lands(ctx context.Context, c *Capture, catalog *offers.Catalog, commit Commit) answered {
	offered, err := offers.New(ctx, catalog, c.Settings.Settings)
	if err != nil {
		return answered{Failed: err.Error()}
	}
	out, err := Lands(ctx, c, commit, offered)
	if err != nil {
		return answered{Failed: err.Error()}
	}
	for i := range out.Nowhere {
		out.Nowhere[i].Reason = finding.Bounded(inShort(out.Nowhere[i].Reason), longestReason)
	}
	return answered{Nowhere: out.Nowhere, Unknown: out.Unknown, Unlaunchable: out.Unlaunchable, Undecided: out.Undecided}
}

// simulate simulates in a child process or, if there is no Runner, in this one.
func simulate(ctx context.Context, runner *confine.Runner, c *Capture, catalog string, commit Commit) (answered, error) {
	out := answered{}
	if runner == nil {
		offered := &offers.Catalog{}
		if err := unpack(catalog, offered); err != nil {
			return out, err
		}
		out = lands(ctx, c, offered, commit)
	} else if err := simulateInChild(ctx, runner, c, catalog, commit, &out); err != nil {
		return out, err
	}
	if out.Failed != "" {
		return out, fmt.Errorf("%s: %s", what, out.Failed)
	}
	return out, nil
}

func simulateInChild(ctx context.Context, runner *confine.Runner, c *Capture, catalog string, commit Commit, out *answered) error {
	captured, err := pack(c)
	if err != nil {
		return err
	}
	committed, err := pack(commit)
	if err != nil {
		return err
	}
	// With an owner of its own, so no render waits for it: simulations run one at a time, and take one of the slots.
	answer, err := runner.Ask(confine.For(ctx, JobName), what, JobName,
		map[string]any{"capture": captured, "commit": committed, "catalog": catalog})
	if err != nil {
		return err
	}
	text, _ := answer.(string)
	if err := unpack(text, out); err != nil {
		return &confine.ChildError{What: what, Err: err}
	}
	return nil
}

// incompatiblePrefix is the prefix with which Karpenter reports that a pool does not match a pod's requirements.
const incompatiblePrefix = "incompatible requirements, "

// inShort returns each of Karpenter's reasons once. Reasons that apply to most pools, such as a missing label, come
// last, as do reasons that a pool is for other pods. Otherwise the order is stable, whatever the order of the pools.
func inShort(reason string) string {
	counts := map[string]int{}
	var things []string
	for thing := range strings.SplitSeq(reason, "; ") {
		if counts[thing]++; counts[thing] == 1 {
			things = append(things, thing)
		}
	}
	others := func(thing string) int {
		return strings.Count(thing[:min(len(thing), len(incompatiblePrefix))], incompatiblePrefix)
	}
	slices.SortFunc(things, func(a, b string) int {
		return cmp.Or(cmp.Compare(others(a), others(b)), cmp.Compare(counts[a], counts[b]), cmp.Compare(a, b))
	})
	return strings.Join(things, "; ")
}
