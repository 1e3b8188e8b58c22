package teardown

import (
	"errors"
	"maps"
	"slices"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/provision/leftover"
)

// Deletion is what the command itself deletes in AWS, after listing it and asking for confirmation, in one or more
// attempts.
type Deletion struct {
	// shown are the IDs that were listed before the confirmation: nothing else is deleted.
	shown map[string]bool
	// said is the last report for each ID, and refused how often AWS has refused its deletion.
	said    map[string]string
	refused map[string]int
	// taken reports whether AWS has deleted something.
	taken bool
}

// refusedTwice is how often a deletion is tried that AWS refuses: a protection may be removed meanwhile.
const refusedTwice = 2

// NewDeletion returns a Deletion for the listed resources.
func NewDeletion[T any](shown []T, id func(T) string) *Deletion {
	e := &Deletion{shown: map[string]bool{}, said: map[string]string{}, refused: map[string]int{}}
	for _, one := range shown {
		e.shown[id(one)] = true
	}
	return e
}

// Keep drops the IDs that must not be deleted any more.
func (e *Deletion) Keep(shown func(id string) bool) {
	for id := range e.shown {
		e.shown[id] = e.shown[id] && shown(id)
	}
}

// Now returns what to delete now, according to a response of AWS, and whether more is left, or may be left.
func (e *Deletion) Now(ending leftover.Deletion, unanswered bool) (now []cloud.Resource, left bool) {
	now = slices.DeleteFunc(ending.Now(), func(r cloud.Resource) bool { return !e.shown[r.ID] || e.refused[r.ID] >= refusedTwice })
	return now, unanswered || len(now)+len(ending.Terminating) > 0
}

// Attempted records the result of an attempt: failed is why AWS has not deleted a resource, by ID. It returns a
// sentence for each resource whose state has changed, and an error if another attempt would not help.
func (e *Deletion) Attempted(resources []cloud.Resource, failed map[string]error) (news []string, err error) {
	for _, r := range resources {
		words := "is deleted"
		if r.Kind == cloud.KindInstance {
			words = "is being terminated"
		}
		if err := failed[r.ID]; err != nil {
			words = "is not deleted: " + leftover.Explain(err, leftover.DeletionPolicy)
			if cloud.Refused(err) {
				e.refused[r.ID]++
			}
		} else {
			e.taken = true
		}
		if e.said[r.ID] != words {
			e.said[r.ID] = words
			news = append(news, leftover.Noun(r.Kind)+" "+r.ID+" "+words)
		}
	}
	return news, e.retryUseless(failed)
}

// retryUseless returns why another attempt does not help: AWS does not accept the credentials, or denies to delete
// anything.
func (e *Deletion) retryUseless(failed map[string]error) error {
	for _, id := range slices.Sorted(maps.Keys(failed)) {
		var denied *cloud.DeniedError
		var credentials *cloud.CredentialsError
		if errors.As(failed[id], &credentials) || errors.As(failed[id], &denied) && !e.taken {
			return errors.New(leftover.Explain(failed[id], leftover.DeletionPolicy))
		}
	}
	return nil
}
