package teardown

import (
	"errors"
	"maps"
	"slices"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/provision/leftover"
)

// Ending is what the command deletes in AWS itself, once it was shown and confirmed, attempt by attempt.
type Ending struct {
	// shown are the IDs of what was listed before the confirmation: nothing else is deleted.
	shown map[string]bool
	// said is what was reported of each, and refused how often AWS has refused it.
	said    map[string]string
	refused map[string]int
	// taken reports whether AWS has deleted something.
	taken bool
}

// refusedTwice is how often something is tried that AWS refuses: a protection may be lifted meanwhile.
const refusedTwice = 2

// NewEnding starts with what was shown.
func NewEnding[T any](shown []T, id func(T) string) *Ending {
	e := &Ending{shown: map[string]bool{}, said: map[string]string{}, refused: map[string]int{}}
	for _, one := range shown {
		e.shown[id(one)] = true
	}
	return e
}

// Keep leaves out what must not be deleted any more.
func (e *Ending) Keep(shown func(id string) bool) {
	for id := range e.shown {
		e.shown[id] = e.shown[id] && shown(id)
	}
}

// Now returns what is to be deleted now, by an answer of AWS, and whether more is left, or may be left.
func (e *Ending) Now(ending leftover.Ending, unanswered bool) (now []cloud.Resource, left bool) {
	now = slices.DeleteFunc(ending.Now(), func(r cloud.Resource) bool { return !e.shown[r.ID] || e.refused[r.ID] >= refusedTwice })
	return now, unanswered || len(now)+len(ending.Going) > 0
}

// Attempted notes what became of an attempt: failed is why, by the ID of each that AWS has not deleted. It returns a sentence
// for each resource of which there is news, and an error if another attempt does not help.
func (e *Ending) Attempted(resources []cloud.Resource, failed map[string]error) (news []string, err error) {
	for _, r := range resources {
		words := "is deleted"
		if r.Kind == cloud.KindInstance {
			words = "is being terminated"
		}
		if err := failed[r.ID]; err != nil {
			words = "is not deleted: " + leftover.Explain(err, leftover.EndingPolicy)
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
	return news, e.useless(failed)
}

// useless returns why another attempt does not help: AWS does not accept the credentials, or denies to delete anything.
func (e *Ending) useless(failed map[string]error) error {
	for _, id := range slices.Sorted(maps.Keys(failed)) {
		var denied *cloud.DeniedError
		var credentials *cloud.CredentialsError
		if errors.As(failed[id], &credentials) || errors.As(failed[id], &denied) && !e.taken {
			return errors.New(leftover.Explain(failed[id], leftover.EndingPolicy))
		}
	}
	return nil
}
