package landing

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	kjson "sigs.k8s.io/json"

	"github.com/plumbline-dev/plumbline/provision/cloud/offers"
)

// fresh is how long EC2 is not asked again for its instance types, about 20 requests.
const fresh = 12 * time.Hour

// Catalogs are what EC2 offers, by region: packed, as they are for child processes.
type Catalogs struct {
	// Ask asks EC2 in a region.
	Ask func(ctx context.Context, region string) (*offers.Catalog, error)

	mu    sync.Mutex
	known map[string]packed
}

// packed is a Catalog as JSON in gzip.
type packed struct {
	text string
	at   time.Time
}

// of is the Catalog of a region, as it was at most half a day ago.
func (c *Catalogs) of(ctx context.Context, region string, now time.Time) (string, error) {
	if region == "" {
		return "", errors.New("no node says its region (label topology.kubernetes.io/region): EC2 cannot be asked")
	}
	c.mu.Lock()
	defer c.mu.Unlock() // another one that waits has the same question
	if known, ok := c.known[region]; ok && now.Before(known.at.Add(fresh)) {
		return known.text, nil
	}
	found, err := c.Ask(ctx, region)
	if err != nil {
		return "", fmt.Errorf("ask EC2 in %s for its instance types: %w", region, err)
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
	// Whole numbers stay so, as a cluster's definitions have them.
	return kjson.UnmarshalCaseSensitivePreserveInts(whole, into)
}
