package awssim

import (
	"time"

	"github.com/aws/aws-sdk-go/service/ec2"

	"github.com/plumbline-dev/plumbline/tests/sandbox/awssim/wire"
)

// listable is what selectResources needs to know of a resource.
type listable interface {
	tagged
	id() string
	visible(time.Time) bool
}

func (r *resource) id() string { return r.ID }

// listing is the common part of EC2's describing calls.
type listing[T listable] struct {
	ids        []*string
	filters    []*ec2.Filter
	attributes attributes[T]
	missing    func(id string) error // the error for an ID that does not exist
	limit      *int64
	token      *string
}

// idsAndLimit rejects a page size together with IDs.
func idsAndLimit() error {
	return wire.Errorf("InvalidParameterCombination", "The parameter instancesSet cannot be used with the parameter maxResults")
}

// selectResources returns one page of what l selects.
func selectResources[T listable](a *account, r *request, all map[string]T, l listing[T]) ([]T, *string, error) {
	if len(l.ids) > 0 && l.limit != nil {
		return nil, nil, idsAndLimit()
	}
	matches, err := selector(l.filters, l.attributes)
	if err != nil {
		return nil, nil, err
	}
	candidates := all
	if len(l.ids) > 0 {
		candidates = map[string]T{}
		for _, id := range l.ids {
			t, ok := all[*id]
			if !ok || !t.visible(a.now) {
				return nil, nil, l.missing(*id)
			}
			candidates[*id] = t
		}
	}
	var selected []T
	for _, t := range candidates {
		if t.visible(a.now) && matches(t) {
			selected = append(selected, t)
		}
	}
	return ec2Page(a, r, selected, T.id, l.limit, l.token)
}
