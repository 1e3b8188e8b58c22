package account

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// unresolved returns an EC2NodeClass at its second generation, whose AMIs Karpenter has resolved for another one.
func unresolved(name, alias string, change ...func(condition map[string]any)) *plan.Object {
	condition := map[string]any{"type": awsv1.ConditionTypeAMIsReady, "status": "True", "observedGeneration": int64(1)}
	for _, c := range change {
		c(condition)
	}
	return plan.NewObject(&unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "karpenter.k8s.aws/v1", "kind": render.EC2NodeClass, "metadata": map[string]any{"name": name, "generation": int64(2)},
		"spec":   map[string]any{"amiSelectorTerms": []any{map[string]any{"alias": alias}}},
		"status": map[string]any{"conditions": []any{condition}},
	}})
}

// imagesAWS publishes no AMI for the withdrawn aliases, and does not respond while it is away.
type imagesAWS struct {
	withdrawn map[string]bool
	away      bool
	// asked are the aliases of each query.
	asked [][]string
}

func (a *imagesAWS) ask(_ context.Context, questions []plan.Question) map[render.Ref]plan.Answer {
	var names []string
	answers := map[render.Ref]plan.Answer{}
	for i := range questions {
		q := &questions[i]
		names = append(names, q.Named())
		switch amis := (plan.Resolved[awsv1.AMI]{Found: []awsv1.AMI{{ID: "ami-1"}}}); {
		case a.away:
			answers[q.Ref] = *plan.Unanswered("AWS throttles ssm:GetParameter")
		case a.withdrawn[q.Named()]:
			answers[q.Ref] = plan.Answer{AMIs: plan.Resolved[awsv1.AMI]{Empty: true, Unavailable: "AWS has no AMI"}}
		default:
			answers[q.Ref] = plan.Answer{AMIs: amis}
		}
	}
	slices.Sort(names)
	a.asked = append(a.asked, names)
	return answers
}

// see runs one reconcile, and returns the classes with which no node can be launched, and after how long it checks
// again.
func (a *imagesAWS) see(t *testing.T, asker *AMIChecker, classes ...*plan.Object) (map[string]string, time.Duration) {
	t.Helper()
	var found finding.Findings
	now := time.Now()
	why := asker.See(t.Context(), AMILook{Ask: a.ask, In: "eu-west-1 1.36", Classes: classes, Now: now}, &found)
	synctest.Wait()
	if found.WakeAt.IsZero() {
		return why, 0
	}
	return why, found.WakeAt.Sub(now)
}

// TestAnAppliedAliasWithoutAMI checks that it is reported once AWS has responded that it publishes none. Without a
// response it is unknown, and an answer is valid for ten minutes.
func TestAnAppliedAliasWithoutAMI(t *testing.T) {
	const words = "AWS publishes no AMI for alias al2023@v20261115 of EC2NodeClass/default, so no node can be launched: " +
		"correct it, or wait until AWS publishes one for the cluster's Kubernetes version"
	synctest.Test(t, func(t *testing.T) {
		aws, asker, class := &imagesAWS{withdrawn: map[string]bool{"alias al2023@v20261115": true}, away: true}, &AMIChecker{}, unresolved("default", "al2023@v20261115")
		step := func(name string, after time.Duration, want string, wantWake time.Duration, wantAsked int) {
			t.Helper()
			<-time.After(after)
			why, wake := aws.see(t, asker, class)
			if why["default"] != want || wake != wantWake || len(aws.asked) != wantAsked {
				t.Errorf("%s: %q, next in %s, asked %d times; want %q, in %s, asked %d times", name, why["default"], wake, len(aws.asked), want, wantWake, wantAsked)
			}
		}
		step("Karpenter may resolve it", 0, "", resolvePeriod, 0)
		step("AWS does not answer", resolvePeriod, "", checkResultAfter, 1)
		step("it is unknown", checkResultAfter, "", retryBusyAfter-checkResultAfter, 1)
		aws.away = false
		step("AWS is queried again", retryBusyAfter-checkResultAfter, "", checkResultAfter, 2)
		step("AWS publishes none", checkResultAfter, words, amiEvery-checkResultAfter, 2)
		step("that is valid", amiEvery/2, words, amiEvery/2-checkResultAfter, 2)
		aws.away = true
		step("AWS does not answer again", amiEvery/2-checkResultAfter, words, checkResultAfter, 3)
		step("the last answer stands", checkResultAfter, words, retryBusyAfter-checkResultAfter, 3)
		aws.away, aws.withdrawn = false, nil
		step("AWS publishes it", retryBusyAfter-checkResultAfter, words, checkResultAfter, 4)
		step("it is over", checkResultAfter, "", amiEvery-checkResultAfter, 4)
	})
}

// TestAMIsThatNeedNoQuery checks that nothing is queried if Karpenter has resolved the AMIs or reports that there are
// none, or the class is terminating or has other terms.
func TestAMIsThatNeedNoQuery(t *testing.T) {
	resolved := func(c map[string]any) { c["observedGeneration"] = int64(2) }
	for name, c := range map[string]struct {
		class *plan.Object
		asked bool
	}{
		"the last spec":             {unresolved("default", "al2023@latest"), true},
		"Unknown":                   {unresolved("default", "al2023@latest", resolved, func(c map[string]any) { c["status"] = "Unknown" }), true},
		"no such condition":         {unresolved("default", "al2023@latest", func(c map[string]any) { c["type"] = "Ready" }), true},
		"resolved":                  {unresolved("default", "al2023@latest", resolved), false},
		"Karpenter finds none":      {unresolved("default", "al2023@latest", resolved, func(c map[string]any) { c["status"] = "False" }), false},
		"an alias that is unknown":  {unresolved("default", "al3000@latest"), false},
		"it is being deleted":       {deleting(unresolved("default", "al2023@latest")), false},
		"terms other than an alias": {byID(unresolved("default", "al2023@latest")), false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				aws, asker := &imagesAWS{}, &AMIChecker{}
				aws.see(t, asker, c.class)
				<-time.After(resolvePeriod)
				if aws.see(t, asker, c.class); (len(aws.asked) > 0) != c.asked {
					t.Errorf("AWS is asked for %v, want it to be asked: %t", aws.asked, c.asked)
				}
			})
		})
	}
}

func deleting(o *plan.Object) *plan.Object {
	o.Object["metadata"].(map[string]any)["deletionTimestamp"] = "2026-03-01T12:00:00Z"
	return plan.NewObject(o.Unstructured)
}

func byID(o *plan.Object) *plan.Object {
	o.Object["spec"] = map[string]any{"amiSelectorTerms": []any{map[string]any{"id": "ami-1"}}}
	return plan.NewObject(o.Unstructured)
}

// TestFewQueriesAboutAMIs checks that an alias of several classes takes one query, and that only a few of many aliases
// are queried each minute.
func TestFewQueriesAboutAMIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		aws, asker := &imagesAWS{withdrawn: map[string]bool{"alias al2023@v1": true}}, &AMIChecker{}
		classes := []*plan.Object{unresolved("a", "al2023@v1"), unresolved("b", "al2023@v1")}
		for _, version := range strings.Fields("v2 v3 v4 v5") {
			classes = append(classes, unresolved(version, "al2023@"+version))
		}
		aws.see(t, asker, classes...)
		<-time.After(resolvePeriod)
		if _, wake := aws.see(t, asker, classes...); len(aws.asked) != 1 || len(aws.asked[0]) != amisAtOnce || wake != checkResultAfter {
			t.Errorf("asked for %v, next in %s", aws.asked, wake)
		}
		<-time.After(checkResultAfter)
		if _, wake := aws.see(t, asker, classes...); len(aws.asked) != 1 || wake != retryBusyAfter-checkResultAfter {
			t.Errorf("asked for %v, next in %s", aws.asked, wake)
		}
		<-time.After(retryBusyAfter - checkResultAfter)
		aws.see(t, asker, classes...)
		<-time.After(checkResultAfter)
		why, _ := aws.see(t, asker, classes...)
		all := slices.Concat(aws.asked...)
		slices.Sort(all)
		if want := []string{"alias al2023@v1", "alias al2023@v2", "alias al2023@v3", "alias al2023@v4", "alias al2023@v5"}; !cmp.Equal(want, all) {
			t.Errorf("asked for %v", all)
		}
		if named := slices.Sorted(maps.Keys(why)); !cmp.Equal([]string{"a", "b"}, named) {
			t.Errorf("AWS publishes no AMI for %v", why)
		}
	})
}
