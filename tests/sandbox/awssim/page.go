package awssim

import (
	"cmp"
	"encoding/base64"
	"slices"

	"github.com/aws/aws-sdk-go/aws"

	"github.com/plumbline-dev/plumbline/tests/sandbox/awssim/wire"
)

// page returns the items of one page, sorted by key, and the token of the next.
// The token names the last item, so that nothing is missed or seen twice when
// items come and go between pages.
func page[T any](items []T, key func(T) string, limit *int64, token *string) ([]T, *string, error) {
	slices.SortFunc(items, func(a, b T) int { return cmp.Compare(key(a), key(b)) })
	if token != nil {
		after, err := base64.RawURLEncoding.DecodeString(*token)
		if err != nil {
			return nil, nil, wire.Errorf("InvalidPaginationToken", "the token %q is not one of this simulator's", *token)
		}
		start, found := slices.BinarySearchFunc(items, string(after), func(t T, k string) int { return cmp.Compare(key(t), k) })
		if found {
			start++
		}
		items = items[start:]
	}
	n := int(aws.Int64Value(limit))
	if n <= 0 || len(items) <= n {
		return items, nil, nil
	}
	next := base64.RawURLEncoding.EncodeToString([]byte(key(items[n-1])))
	return items[:n], aws.String(next), nil
}
