package cloud

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// TestInterfacesOfServices checks the control plane's interfaces: they have the cluster's tag, and are attached to
// instances in an account of EKS, which only EKS can list.
func TestInterfacesOfServices(t *testing.T) {
	const account = "111122223333"
	to := func(owner string) *ec2types.NetworkInterfaceAttachment {
		return &ec2types.NetworkInterfaceAttachment{InstanceId: aws.String("i-1"), InstanceOwnerId: aws.String(owner)}
	}
	cases := map[string]struct {
		found ec2types.NetworkInterface
		want  bool
	}{
		"of nothing":               {ec2types.NetworkInterface{}, false},
		"of an instance":           {ec2types.NetworkInterface{Attachment: to(account)}, false},
		"of the control plane":     {ec2types.NetworkInterface{Attachment: to("210987654321")}, true},
		"of a load balancer":       {ec2types.NetworkInterface{RequesterManaged: aws.Bool(true)}, true},
		"whose owner is not named": {ec2types.NetworkInterface{Attachment: &ec2types.NetworkInterfaceAttachment{InstanceId: aws.String("i-1")}}, false},
	}
	for name, c := range cases {
		c.found.OwnerId = aws.String(account)
		if got := interfaceOf(&c.found).OfService; got != c.want {
			t.Errorf("%s: OfService = %t, want %t", name, got, c.want)
		}
	}
}

// batchOf returns a pool of n instances.
func batchOf(n int) map[string]row {
	world := map[string]row{}
	for i := range n {
		world[fmt.Sprintf("i-%03d", i)] = row{zone: "eu-west-1a", state: "running", cluster: "demo", pool: "batch"}
	}
	return world
}

// ask queries the pool with a short timeout, in which a number of pages are returned.
func ask(t *testing.T, client *Client, account *account, pages int32) ([]Instance, error) {
	t.Helper()
	account.hangs.Store(true)
	account.answers.Store(pages)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	return client.Instances(ctx, Query{Cluster: "demo", Pools: []string{"batch"}})
}

// TestManyPagesAreReadInSeveralQuestions checks that each query has little time and continues where the previous one
// stopped, and that only the last one returns a result.
func TestManyPagesAreReadInSeveralQuestions(t *testing.T) {
	account := &account{instances: batchOf(8), pageSize: 1}
	client := connect(t, account, Options{Attempts: 1})
	for range 2 {
		found, err := ask(t, client, account, 3)
		var partial *PartialError
		if !errors.As(err, &partial) || len(found) > 0 {
			t.Fatalf("with pages to come: %d instances, %T %v", len(found), err, err)
		}
	}
	if found, err := ask(t, client, account, 3); err != nil || len(found) != 8 {
		t.Errorf("with the last page: %d instances, %v", len(found), err)
	}
	// The next query starts over.
	account.change(func() { account.instances = nil })
	if found, err := ask(t, client, account, 3); err != nil || len(found) != 0 {
		t.Errorf("asked again: %d instances, %v", len(found), err)
	}
}

// TestATokenThatIsRefused checks that a query starts over if its token is refused, or too old.
func TestATokenThatIsRefused(t *testing.T) {
	for name, spoil := range map[string]func(*Client, *account){
		"expired": func(_ *Client, a *account) {
			// Only a query that starts over, with a request without a token, gets the page. The last request of the earlier query,
			// whose caller is gone, may arrive late, and must not count as the one that is refused.
			again := false
			a.refuse = func(form url.Values) (string, string) {
				again = again || form.Get("NextToken") == ""
				if form.Get("NextToken") == "3" && !again {
					return "InvalidPaginationToken", "The token has expired"
				}
				return "", ""
			}
		},
		"of an old answer": func(c *Client, _ *account) {
			c.now = func() time.Time { return time.Now().Add(maxListingAge + time.Minute) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			account := &account{instances: batchOf(5), pageSize: 1}
			client := connect(t, account, Options{Attempts: 1})
			if _, err := ask(t, client, account, 3); err == nil {
				t.Fatal("all of it was read at once")
			}
			account.change(func() {
				delete(account.instances, "i-000") // it was on the first page
				spoil(client, account)
			})
			if found, err := ask(t, client, account, 10); err != nil || len(found) != 4 {
				t.Errorf("%d instances, %v, want the 4 that are left", len(found), err)
			}
		})
	}
}

// TestAPageThatTakesTooLong checks that smaller pages are requested.
func TestAPageThatTakesTooLong(t *testing.T) {
	account := &account{instances: batchOf(2)}
	client := connect(t, account, Options{Attempts: 1})
	for _, want := range []string{"1000", "250", "62", "50", "50"} {
		if _, err := ask(t, client, account, 0); err == nil {
			t.Fatal("no error")
		}
		if got := account.last().Get("MaxResults"); got != want {
			t.Errorf("asked for pages of %s, want %s", got, want)
		}
	}
}

// TestEmptyPagesAreNoEnd checks that a page without instances may have a token.
func TestEmptyPagesAreNoEnd(t *testing.T) {
	account := &account{instances: batchOf(3), pageSize: 1, emptyFirst: true}
	found, err := connect(t, account, Options{}).Instances(t.Context(), Query{Cluster: "demo", Pools: []string{"batch"}})
	if err != nil || len(found) != 3 {
		t.Errorf("%d instances, %v", len(found), err)
	}
}

// TestRegionOf checks that the region comes from this cluster's path only.
func TestRegionOf(t *testing.T) {
	for path, want := range map[string]string{
		"/karpenter/us-east-1/demo/uid/": "us-east-1", "/karpenter/us-east-1/demo/": "us-east-1",
		"/karpenter/us-east-1/demo2/uid/": "", "/karpenter/us-east-1/": "", "/": "", "/app/us-east-1/demo/": "",
	} {
		if got := regionOf(path, "demo"); got != want {
			t.Errorf("%s is of %q, want %q", path, got, want)
		}
	}
}
