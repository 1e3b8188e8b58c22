package soak

import "testing"

func TestCrashed(t *testing.T) {
	for name, test := range map[string]struct {
		code     int
		pardoned bool
		want     bool
	}{
		"it has lost the lease":    {1, true, false},
		"it gives up for nothing":  {1, false, true},
		"it says that it is done":  {0, true, true},
		"it panics after a fault":  {2, true, true},
		"the kernel has killed it": {137, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := crashed(test.code, test.pardoned) != nil; got != test.want {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}

func TestOverdue(t *testing.T) {
	const late = `{"msg":"Failed to renew lease","err":"context deadline exceeded"}`
	for name, test := range map[string]struct {
		log  string
		want bool
	}{
		"the API server was late":      {late + "\nplumbline: run the controller: leader election lost\n", true},
		"it was late, and that is all": {late + "\nplumbline: run the controller: no such host\n", false},
		"the lease was lost on time":   {"plumbline: run the controller: leader election lost\n", false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := overdue(test.log); got != test.want {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}
