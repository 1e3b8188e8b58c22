package awssim_test

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/plumbline-dev/plumbline/tests/sandbox/awssim"
)

// idsOf returns the instances of reservations, in their order.
func idsOf(reservations []types.Reservation) []string {
	var ids []string
	for _, r := range reservations {
		for i := range r.Instances {
			ids = append(ids, *r.Instances[i].InstanceId)
		}
	}
	return ids
}

func (a *account) list(t *testing.T) []string {
	t.Helper()
	out, err := a.ec2().DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{})
	noError(t, err)
	return idsOf(out.Reservations)
}

func TestInstancesOfOneLaunchShareAReservation(t *testing.T) {
	a := newAccount(t, awssim.Options{})
	a.launch(t, 3)
	a.launch(t, 2)
	out, err := a.ec2().DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{})
	noError(t, err)
	var sizes []int
	for _, r := range out.Reservations {
		sizes = append(sizes, len(r.Instances))
	}
	slices.Sort(sizes)
	if !slices.Equal(sizes, []int{2, 3}) {
		t.Errorf("instances by reservation: %v, want 2 and 3", sizes)
	}
}

func TestListingsHaveNoOrder(t *testing.T) {
	a := newAccount(t, awssim.Options{})
	a.launch(t, 8)
	orders := map[string]bool{}
	for range 10 {
		orders[strings.Join(a.list(t), " ")] = true
	}
	if len(orders) < 5 {
		t.Errorf("ten listings had %d orders, want each another", len(orders))
	}
	noError(t, a.SetAnswers(awssim.Answers{Sorted: true, TokenLife: awssim.Duration(time.Hour)}))
	if ids := a.list(t); !slices.IsSorted(ids) {
		t.Errorf("%v are not sorted, and were asked to be", ids)
	}
}

// TestPagesAreShortOrEmpty checks many listings: some page is empty and has a token, some has fewer items than possible
// and a token.
func TestPagesAreShortOrEmpty(t *testing.T) {
	a := newAccount(t, awssim.Options{})
	want := len(a.launch(t, 12))
	short, empty := 0, 0
	for range 30 {
		pages := ec2.NewDescribeInstancesPaginator(a.ec2(), &ec2.DescribeInstancesInput{MaxResults: aws.Int32(10)})
		found := map[string]bool{}
		for pages.HasMorePages() {
			out, err := pages.NextPage(t.Context())
			noError(t, err)
			ids := idsOf(out.Reservations)
			for _, id := range ids {
				if found[id] {
					t.Errorf("%s is in two pages", id)
				}
				found[id] = true
			}
			switch {
			case out.NextToken == nil:
			case len(ids) == 0:
				empty++
			case len(ids) < 10:
				short++
			}
		}
		if len(found) != want {
			t.Errorf("the pages of one listing have %d instances, want %d", len(found), want)
		}
	}
	if short == 0 || empty == 0 {
		t.Errorf("%d short pages and %d empty ones have a token, want some of both", short, empty)
	}
}

func TestLimitsOfListings(t *testing.T) {
	a := newAccount(t, awssim.Options{})
	id := a.launch(t, 1)[0]
	values := make([]string, 201)
	for i := range values {
		values[i] = "value-" + strconv.Itoa(i)
	}
	filters := make([]types.Filter, 51)
	for i := range filters {
		filters[i] = types.Filter{Name: aws.String("tag:k"), Values: []string{"v"}}
	}
	for name, tc := range map[string]struct {
		in   ec2.DescribeInstancesInput
		want string
	}{
		"a page too small":        {ec2.DescribeInstancesInput{MaxResults: aws.Int32(4)}, "InvalidParameterValue"},
		"a page too large":        {ec2.DescribeInstancesInput{MaxResults: aws.Int32(1001)}, "InvalidParameterValue"},
		"a page of what is named": {ec2.DescribeInstancesInput{MaxResults: aws.Int32(5), InstanceIds: []string{id}}, "InvalidParameterCombination"},
		"200 values":              {ec2.DescribeInstancesInput{Filters: []types.Filter{{Name: aws.String("tag:k"), Values: values[:200]}}}, ""},
		"200 values and one":      {ec2.DescribeInstancesInput{Filters: []types.Filter{{Name: aws.String("tag:k"), Values: values[:200]}, filters[0]}}, "FilterLimitExceeded"},
		"50 filters":              {ec2.DescribeInstancesInput{Filters: filters[:50]}, ""},
		"51 filters":              {ec2.DescribeInstancesInput{Filters: filters}, "FilterLimitExceeded"},
		"a long value":            {ec2.DescribeInstancesInput{Filters: []types.Filter{{Name: aws.String("tag:k"), Values: []string{strings.Repeat("x", 256)}}}}, "FilterLimitExceeded"},
		"a malformed ID":          {ec2.DescribeInstancesInput{InstanceIds: []string{"i-1"}}, "InvalidInstanceID.Malformed"},
		"no token of EC2's":       {ec2.DescribeInstancesInput{NextToken: aws.String("next")}, "InvalidPaginationToken"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := a.ec2().DescribeInstances(t.Context(), &tc.in)
			wantCode(t, err, tc.want)
		})
	}
}

func TestTokensExpire(t *testing.T) {
	a := newAccount(t, awssim.Options{})
	a.launch(t, 12)
	out, err := a.ec2().DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{MaxResults: aws.Int32(5)})
	noError(t, err)
	a.clock.advance(time.Hour + time.Second)
	_, err = a.ec2().DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{MaxResults: aws.Int32(5), NextToken: out.NextToken})
	wantCode(t, err, "InvalidPaginationToken")
}

// TestFlapping: an instance is missing from some responses, never from two in a row, and from none to another caller.
func TestFlapping(t *testing.T) {
	a := newAccount(t, awssim.Options{})
	id := a.launch(t, 1)[0]
	answers := awssim.DefaultAnswers()
	answers.Flap, answers.AccessKey = 0.5, "tester"
	noError(t, a.SetAnswers(answers))
	missed, inARow := 0, 0
	for range 100 {
		if len(a.list(t)) == 1 {
			inARow = 0
			continue
		}
		missed++
		if inARow++; inARow > 1 {
			t.Fatal("it was missing from two answers in a row")
		}
	}
	if missed < 10 || missed > 50 {
		t.Errorf("it was missing from %d answers of 100", missed)
	}
	notFound := 0
	for range 20 {
		if _, err := a.ec2().DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{InstanceIds: []string{id}}); code(err) == "InvalidInstanceID.NotFound" {
			notFound++
		}
	}
	if notFound == 0 || notFound > 10 {
		t.Errorf("by its ID it was not found %d times of 20", notFound)
	}
	for range 20 {
		out, err := ec2.NewFromConfig(a.config("another")).DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{})
		if err != nil || len(out.Reservations) != 1 {
			t.Fatalf("to another caller: %v, error %v", out, err)
		}
	}
}

// TestFlappingByInstance: instances flap independently: responses omit one and contain another, and none is omitted
// twice in a row.
func TestFlappingByInstance(t *testing.T) {
	a := newAccount(t, awssim.Options{})
	ids := a.launch(t, 4)
	answers := awssim.DefaultAnswers()
	answers.Flap, answers.AccessKey = 0.5, "tester"
	noError(t, a.SetAnswers(answers))
	missed, before, partly := map[string]int{}, map[string]bool{}, 0
	for range 100 {
		shown, now := a.list(t), map[string]bool{}
		for _, id := range ids {
			if slices.Contains(shown, id) {
				continue
			}
			now[id] = true
			missed[id]++
			if before[id] {
				t.Fatalf("%s was missing from two answers in a row", id)
			}
		}
		if len(now) > 0 && len(now) < len(ids) {
			partly++
		}
		before = now
	}
	for _, id := range ids {
		if missed[id] < 10 || missed[id] > 50 {
			t.Errorf("%s was missing from %d answers of 100", id, missed[id])
		}
	}
	if partly < 50 {
		t.Errorf("%d answers of 100 missed some and showed others", partly)
	}
}

// TestLag: responses show an instance as it was a while ago, and do not lag further each time.
func TestLag(t *testing.T) {
	a := newAccount(t, awssim.Options{LaunchDelay: time.Second, ShutdownDelay: time.Second})
	answers := awssim.DefaultAnswers()
	answers.Lag, answers.Settle = awssim.Duration(10*time.Second), awssim.Duration(time.Minute)
	noError(t, a.SetAnswers(answers))
	id := a.launch(t, 1)[0]
	states := func() map[types.InstanceStateName]int {
		seen := map[types.InstanceStateName]int{}
		for range 60 {
			out, err := a.ec2().DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{Filters: []types.Filter{{Name: aws.String("instance-id"), Values: []string{id}}}})
			noError(t, err)
			if len(out.Reservations) == 0 {
				seen[""]++
				continue
			}
			seen[out.Reservations[0].Instances[0].State.Name]++
		}
		return seen
	}
	a.clock.advance(5 * time.Second)
	if seen := states(); seen[""] == 0 || seen["pending"] == 0 || seen["running"] == 0 {
		t.Errorf("5 s after its launch the states were %v, want none, pending and running", seen)
	}
	a.clock.advance(10 * time.Second)
	noError(t, a.Terminate(id))
	a.clock.advance(5 * time.Second)
	if seen := states(); seen["running"] == 0 || seen["terminated"] == 0 || seen[""] > 0 {
		t.Errorf("5 s after its end the states were %v, want running and terminated", seen)
	}
	a.clock.advance(time.Minute)
	if seen := states(); seen["terminated"] != 60 {
		t.Errorf("a minute later the states were %v, want terminated alone", seen)
	}
}

func TestAdminAnswers(t *testing.T) {
	a := newAccount(t, awssim.Options{})
	a.admin(t, http.MethodPut, "answers", `{"flap": 0.5, "lag": "3s"}`, http.StatusNoContent, nil)
	want := awssim.DefaultAnswers()
	want.Flap, want.Lag = 0.5, awssim.Duration(3*time.Second)
	if got := a.Answers(); got != want {
		t.Errorf("answers = %+v, want %+v", got, want)
	}
	for _, bad := range []string{`{"flap": 1}`, `{"shortPages": -1}`, `{"tokenLife": "0s"}`, `{"lag": "-1s"}`, `{"nonsense": 1}`} {
		a.admin(t, http.MethodPut, "answers", bad, http.StatusBadRequest, nil)
	}
}
