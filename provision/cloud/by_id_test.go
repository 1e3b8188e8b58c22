package cloud

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func idsOf(instances []Instance) []string {
	var ids []string
	for _, i := range instances {
		ids = append(ids, i.ID)
	}
	return ids
}

// TestADisruptedZone: EC2 fails each call that names no instance, or one of that
// zone. What the other zones show is known; that is no answer about the tags.
func TestADisruptedZone(t *testing.T) {
	account := &account{instances: map[string]row{
		"i-a1": {zone: "eu-west-1a", state: "running", cluster: "demo", pool: "batch"},
		"i-b1": {zone: "eu-west-1b", state: "running", cluster: "demo", pool: "batch"},
		"i-b2": {zone: "eu-west-1b", state: "terminated", cluster: "demo", pool: "batch"},
	}}
	account.refuse = func(form url.Values) (string, string) {
		if ids := namedIn(form); len(ids) == 0 || slices.Contains(ids, "i-a1") {
			return "InternalError", "An internal error has occurred"
		}
		return "", ""
	}
	client := connect(t, account, Options{Attempts: 1})
	ids := []string{"aws:///eu-west-1a/i-a1", "aws:///eu-west-1b/i-b1", "aws:///eu-west-1b/i-b2"}
	for name, query := range map[string]Query{
		"by tags and IDs": {Cluster: "demo", Pools: []string{"batch"}, ProviderIDs: ids},
		"by IDs":          {Cluster: "demo", ProviderIDs: ids},
	} {
		found, err := client.Instances(t.Context(), query)
		if err == nil || !strings.Contains(err.Error(), "InternalError") {
			t.Errorf("%s: err = %v: the answer is said to be whole", name, err)
		}
		if diff := cmp.Diff([]string{"i-b1", "i-b2"}, idsOf(found)); diff != "" {
			t.Errorf("%s: (-want +got):\n%s", name, diff)
		}
	}
	healthy, err := client.Instances(t.Context(), Query{Cluster: "demo", ProviderIDs: ids[1:]})
	if err != nil || len(healthy) != 2 {
		t.Errorf("IDs of another zone alone: %v, %v", healthy, err)
	}
}

// TestAnIDThatEC2Refuses keeps no other from being asked about, whether EC2 names
// it or not, and however it is asked for.
func TestAnIDThatEC2Refuses(t *testing.T) {
	const odd = "i-xyz"
	for name, c := range map[string]struct{ code, message string }{
		"malformed":         {"InvalidInstanceID.Malformed", `Invalid id: "i-xyz"`},
		"not found":         {"InvalidInstanceID.NotFound", "The instance IDs 'i-xyz' do not exist"},
		"it does not say":   {"InvalidInstanceID.Malformed", "Invalid id"},
		"written otherwise": {"InvalidInstanceId.NotFound", "The instance ID 'i-xyz' does not exist"},
	} {
		for _, outage := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, outage %t", name, outage), func(t *testing.T) {
				account := &account{instances: batchOf(5)}
				account.refuse = func(form url.Values) (string, string) {
					switch named := namedIn(form); {
					case outage && len(named) == 0:
						return "Unavailable", "The service is unavailable"
					case slices.Contains(append(named, filtered(form)...), odd):
						return c.code, c.message
					}
					return "", ""
				}
				query := Query{Cluster: "demo", ProviderIDs: []string{"aws:///eu-west-1a/" + odd}}
				for id := range account.instances {
					query.ProviderIDs = append(query.ProviderIDs, "aws:///eu-west-1a/"+id)
				}
				found, err := connect(t, account, Options{Attempts: 1}).Instances(t.Context(), query)
				if err != nil || len(found) != 5 {
					t.Errorf("%v, %v", idsOf(found), err)
				}
			})
		}
	}
}

// TestAStrayAnswer about an instance that nobody asked for is an error, and no
// proof that the one that was asked for is gone.
func TestAStrayAnswer(t *testing.T) {
	account := &account{instances: batchOf(2)}
	account.refuse = func(url.Values) (string, string) {
		return "InvalidInstanceID.NotFound", "The instance ID 'i-other' does not exist"
	}
	var answer *AnswerError
	_, err := connect(t, account, Options{Attempts: 1}).Instances(t.Context(), Query{ProviderIDs: []string{"aws:///eu-west-1a/i-000"}})
	if !errors.As(err, &answer) {
		t.Errorf("got %T %v", err, err)
	}
}

// TestNoCredentialsAreAskedForOnce: what refuses one question refuses all.
func TestNoCredentialsAreAskedForOnce(t *testing.T) {
	account := &account{fail: func(string) (int, string, string) { return 403, "UnauthorizedOperation", "You are not authorized" }}
	_, err := connect(t, account, Options{Attempts: 1, Timeout: time.Second}).Instances(t.Context(),
		Query{Cluster: "demo", Pools: []string{"batch"}, ProviderIDs: []string{"aws:///eu-west-1a/i-1"}})
	var denied *DeniedError
	if !errors.As(err, &denied) || account.questions() != 1 {
		t.Errorf("%v, %d questions", err, account.questions())
	}
}
