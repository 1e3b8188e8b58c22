package awssim

import (
	"errors"
	"time"
)

// Answers is how EC2 answers what lists resources. Its documents promise no order,
// no full pages and no consistency
// (https://docs.aws.amazon.com/ec2/latest/devguide/eventual-consistency.html); the
// default promises consistency only.
type Answers struct {
	// Sorted lists by ID. Otherwise each listing has an order of its own.
	Sorted bool `json:"sorted,omitempty"`
	// ShortPages and EmptyPages are the shares, from 0 to 1, of the pages that
	// have fewer items than there is room for, or none, and a token all the same.
	ShortPages float64 `json:"shortPages"`
	EmptyPages float64 `json:"emptyPages"`
	// TokenLife is how long the token of a next page is accepted.
	TokenLife Duration `json:"tokenLife"`
	// TagsStay is how long a terminated instance keeps its tags.
	TagsStay Duration `json:"tagsStay"`

	// Lag shows each instance as it was at some moment of the last Lag, another
	// one in each answer.
	Lag Duration `json:"lag,omitempty"`
	// Flap is the share of the answers that an instance is missing from, though it
	// exists. It is never missing from two in a row to one caller.
	Flap float64 `json:"flap,omitempty"`
	// Settle is how long after its last change an instance lags and flaps; zero:
	// always.
	Settle Duration `json:"settle,omitempty"`
	// AccessKey is the caller whose answers lag and flap; empty: all callers.
	AccessKey string `json:"accessKey,omitempty"`
}

// DefaultAnswers are in any order, in pages that are short or empty at times, and
// consistent.
func DefaultAnswers() Answers {
	return Answers{ShortPages: 0.25, EmptyPages: 0.1, TokenLife: Duration(time.Hour), TagsStay: Duration(5 * time.Second)}
}

// mostFlap leaves each instance a chance to be seen.
const mostFlap = 0.9

func (a Answers) validate() error {
	share := func(f float64) bool { return f >= 0 && f <= mostFlap }
	switch {
	case !share(a.ShortPages), !share(a.EmptyPages), !share(a.Flap):
		return errors.New("shortPages, emptyPages and flap are shares from 0 to 0.9")
	case a.TokenLife <= 0:
		return errors.New("tokenLife is positive")
	case a.Lag < 0, a.Settle < 0, a.TagsStay < 0:
		return errors.New("lag, settle and tagsStay are not negative")
	}
	return nil
}

// Answers returns how EC2 answers now.
func (s *Simulator) Answers() Answers {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.account.answers
}

// SetAnswers changes how EC2 answers from now on.
func (s *Simulator) SetAnswers(answers Answers) error {
	if err := answers.validate(); err != nil {
		return err
	}
	s.locked(func(a *account) {
		a.answers = answers
		a.missed = map[string]bool{}
	})
	return nil
}
