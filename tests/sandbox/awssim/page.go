package awssim

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go/aws"

	"github.com/plumbline-dev/plumbline/tests/sandbox/awssim/wire"
)

// page returns the items of one page, sorted by key, and the token of the next. The token names the last item, so that
// none is omitted or repeated if items are added or deleted between pages. IAM and the JSON services list like this.
func page[T any](items []T, key func(T) string, limit *int64, token *string) ([]T, *string, error) {
	slices.SortFunc(items, func(a, b T) int { return cmp.Compare(key(a), key(b)) })
	if token != nil {
		after, err := base64.RawURLEncoding.DecodeString(*token)
		if err != nil {
			return nil, nil, wire.Errorf("InvalidPaginationToken", "the token %q is not one of this simulator's", *token)
		}
		items = behind(items, key, string(after))
	}
	n := int(aws.Int64Value(limit))
	if n <= 0 || len(items) <= n {
		return items, nil, nil
	}
	next := base64.RawURLEncoding.EncodeToString([]byte(key(items[n-1])))
	return items[:n], aws.String(next), nil
}

// behind returns the items after a key; items are sorted by it.
func behind[T any](items []T, key func(T) string, after string) []T {
	start, found := slices.BinarySearchFunc(items, after, func(t T, k string) int { return cmp.Compare(key(t), k) })
	if found {
		start++
	}
	return items[start:]
}

// cursor is the content of an EC2 token: the listing, its last returned item, and the page.
type cursor struct {
	Listing string    `json:"l"`
	After   string    `json:"a"`
	Page    int       `json:"p"`
	Issued  time.Time `json:"t"`
}

// bounds are the bounds of MaxResults.
type bounds struct{ least, most int64 }

// pageBounds are the bounds of calls that differ from most:
// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/Welcome.html
var pageBounds = map[string]bounds{
	"DescribeLaunchTemplates":        {1, 200},
	"DescribeLaunchTemplateVersions": {1, 200},
	"DescribeInstanceTypes":          {5, 100},
	"DescribeSpotPriceHistory":       {1, 100_000},
}

// most are the bounds of the other calls.
var most = bounds{5, 1000}

func checkLimit(action string, limit *int64) error {
	if limit == nil {
		return nil
	}
	b, ok := pageBounds[action]
	if !ok {
		b = most
	}
	switch n := *limit; {
	case n < b.least:
		return wire.Errorf("InvalidParameterValue", "Value ( %d ) for parameter maxResults is invalid. Expecting a value greater than or equal to %d.", n, b.least)
	case n > b.most:
		return wire.Errorf("InvalidParameterValue", "Value ( %d ) for parameter maxResults is invalid. Expecting a value less than or equal to %d.", n, b.most)
	}
	return nil
}

// ec2Page returns the items of one page and the token of the next like EC2: each listing in its own order, its pages
// sometimes short or empty.
func ec2Page[T any](a *account, r *request, items []T, key func(T) string, limit *int64, token *string) ([]T, *string, error) {
	if err := checkLimit(r.action, limit); err != nil {
		return nil, nil, err
	}
	at := cursor{Listing: newRequestID()}
	if token != nil {
		var err error
		if at, err = a.readCursor(*token); err != nil {
			return nil, nil, err
		}
	}
	rank := func(t T) string {
		if a.answers.Sorted {
			return key(t)
		}
		sum := sha256.Sum256([]byte(at.Listing + key(t)))
		return hex.EncodeToString(sum[:8]) + key(t)
	}
	slices.SortFunc(items, func(x, y T) int { return cmp.Compare(rank(x), rank(y)) })
	items = behind(items, rank, at.After)
	if limit == nil {
		return items, nil, nil
	}
	n, more := a.cut(len(items), int(*limit))
	if !more {
		return items, nil, nil
	}
	if n > 0 {
		at.After = rank(items[n-1])
	}
	at.Page++
	at.Issued = a.now
	next, err := json.Marshal(at)
	if err != nil {
		return nil, nil, err
	}
	return items[:n], aws.String(base64.RawURLEncoding.EncodeToString(next)), nil
}

// cut randomly chooses how many of the remaining items are in one page, and whether it has a token.
func (a *account) cut(items, limit int) (n int, more bool) {
	n = min(items, limit)
	switch draw := a.random.Float64(); {
	case n == 0:
		return 0, false
	case draw < a.answers.EmptyPages:
		return 0, true
	case draw < a.answers.EmptyPages+a.answers.ShortPages:
		return 1 + a.random.IntN(n), true
	}
	return n, n < items
}

func (a *account) readCursor(token string) (cursor, error) {
	var at cursor
	text, err := base64.RawURLEncoding.DecodeString(token)
	if err == nil {
		err = json.Unmarshal(text, &at)
	}
	switch {
	case err != nil:
		return at, wire.Errorf("InvalidPaginationToken", "The specified pagination token is not valid: %s", token)
	case a.now.Sub(at.Issued) > time.Duration(a.answers.TokenLife):
		return at, wire.Errorf("InvalidPaginationToken", "The specified pagination token is expired: %s", token)
	}
	return at, nil
}
