package release

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// rejection is the server's answer. Where values are out of Secrets it is the fields that the
// server names, and none of its words: they quote values, and hiding those that are secret
// would tell which of a commit's own are the same.
func (t task) rejection(err error) string {
	if !t.sealed {
		return oneLine(err)
	}
	var fields []string
	var answer apierrors.APIStatus
	if errors.As(err, &answer) && answer.Status().Details != nil {
		for _, cause := range answer.Status().Details.Causes {
			fields = append(fields, fmt.Sprintf("%s (%s)", cause.Field, cause.Type))
		}
	}
	if len(fields) == 0 {
		fields = []string{fmt.Sprintf("it is not accepted (%s)", apierrors.ReasonForError(err))}
	}
	return strings.Join(slices.Compact(fields), ", ") + "; its words are not repeated, as values are out of Secrets"
}
