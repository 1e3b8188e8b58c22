package cloud

import (
	"errors"
	"fmt"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestAttributes: user data is decoded, and termination protection is enabled and disabled for the ID.
func TestAttributes(t *testing.T) {
	var asked []string
	client := connect(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		form, ok := formOf(w, r)
		if !ok {
			return
		}
		asked = append(asked, form.Get("Action")+" "+form.Get("InstanceId")+" "+form.Get("Attribute")+form.Get("DisableApiTermination.Value"))
		switch {
		case form.Get("InstanceId") == "i-denied":
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprint(w, `<Response><Errors><Error><Code>UnauthorizedOperation</Code><Message>no</Message></Error></Errors></Response>`)
		case form.Get("Attribute") == "userData":
			fmt.Fprint(w, `<DescribeInstanceAttributeResponse><instanceId>i-1</instanceId><userData><value>aGVsbG8=</value></userData></DescribeInstanceAttributeResponse>`)
		default:
			fmt.Fprint(w, `<ModifyInstanceAttributeResponse><return>true</return></ModifyInstanceAttributeResponse>`)
		}
	}), Options{})
	text, err := client.UserData(t.Context(), "aws:///eu-west-1a/i-1")
	if text != "hello" || err != nil {
		t.Errorf("user data %q, %v", text, err)
	}
	for _, on := range []bool{true, false} {
		if err := client.SetTerminationProtection(t.Context(), "i-1", on); err != nil {
			t.Error(err)
		}
	}
	if err := client.SetTerminationProtection(t.Context(), "i-denied", true); !errors.As(err, new(*DeniedError)) {
		t.Errorf("denied: %v", err)
	}
	if _, err := client.UserData(t.Context(), "kwok://node"); err == nil {
		t.Error("the user data of what is not an instance")
	}
	want := []string{
		"DescribeInstanceAttribute i-1 userData", "ModifyInstanceAttribute i-1 true", "ModifyInstanceAttribute i-1 false", "ModifyInstanceAttribute i-denied true",
	}
	if diff := cmp.Diff(want, asked); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}
