package teardown

import (
	"encoding/json"
	"fmt"
	"time"
)

// Seen is the state in which EC2 has shown an instance, as EC2 writes it; empty
// where it never has.
type Seen string

// seenOnce is an instance that EC2 has shown in a state that was not recorded:
// records of before kept no state.
const seenOnce Seen = "seen"

// The states from which no instance comes back (EC2 user guide, "Amazon EC2
// instance state changes"). One that is stopping or stopped can be started again.
const (
	shuttingDown Seen = "shutting-down"
	terminated   Seen = "terminated"
)

// ending says that EC2 has shown that the instance is on its way out.
func (s Seen) ending() bool { return s == shuttingDown || s == terminated }

// rank orders what is known of an instance. It only rises: an answer that lags
// does not bring back what was shown to be ending.
func (s Seen) rank() int {
	switch {
	case s == "":
		return 0
	case s.ending():
		return 2
	}
	return 1
}

// UnmarshalJSON reads a state, or what older records have in its place: whether
// EC2 has shown the instance.
func (s *Seen) UnmarshalJSON(data []byte) error {
	var shown bool
	if err := json.Unmarshal(data, &shown); err == nil {
		*s = ""
		if shown {
			*s = seenOnce
		}
		return nil
	}
	var state string
	if err := json.Unmarshal(data, &state); err != nil {
		return fmt.Errorf("read the state of an instance: %w", err)
	}
	*s = Seen(state)
	return nil
}

// Absence is how long EC2's answers have lacked an instance, without a break.
type Absence struct {
	// Since is the time of the first answer that lacked it.
	Since time.Time
	// Answers is how many have.
	Answers int
}

// settled is how long EC2's answers may lack an instance that exists. They are
// eventually consistent, by seconds as a rule; Karpenter itself allows for
// minutes. An ended instance is listed for about an hour, so one that is absent
// for longer than this ended while nobody asked.
const settled = 10 * time.Minute

// settledAnswers is how many answers have to lack it besides: clocks jump.
const settledAnswers = 10

// proves says that an absence is the end of an instance that was not seen ending.
func (a Absence) proves(now time.Time) bool {
	return a.Answers >= settledAnswers && now.Sub(a.Since) >= settled
}

// absences counts one more answer, which has shown some instances: those that are
// noted, were not seen ending and are not among them are absent. An instance that
// was shown begins again at nothing, and one that was noted absent at a time
// ahead, before the clock was put back, at now.
func absences(before map[string]Absence, noted map[string]Seen, shown map[string]bool, now time.Time) map[string]Absence {
	after := map[string]Absence{}
	for id, seen := range noted {
		if shown[id] || seen.ending() {
			continue
		}
		a := before[id]
		if a.Answers == 0 || a.Since.After(now) {
			a.Since = now
		}
		a.Answers++
		after[id] = a
	}
	return after
}
