package wire

import (
	"bytes"
	"encoding/xml"
	"fmt"

	"github.com/aws/aws-sdk-go/private/protocol/xml/xmlutil"
)

// xml writes body's fields inside <ActionResponse>, with the elements that each of the two XML protocols adds.
func (r Response) xml(body any) ([]byte, error) {
	var b bytes.Buffer
	fmt.Fprintf(&b, `<%sResponse xmlns=%q>`, r.Action, r.Namespace)
	if r.Protocol == Query {
		fmt.Fprintf(&b, `<%sResult>`, r.Action)
	} else {
		fmt.Fprintf(&b, `<requestId>%s</requestId>`, r.RequestID)
	}
	if body != nil {
		// An output struct has no element name of its own; the builder omits the nameless element and writes only the
		// fields.
		if err := xmlutil.BuildXML(body, xml.NewEncoder(&b)); err != nil {
			return nil, fmt.Errorf("building XML from %T: %w", body, err)
		}
	}
	if r.Protocol == Query {
		fmt.Fprintf(&b, `</%sResult><ResponseMetadata><RequestId>%s</RequestId></ResponseMetadata>`, r.Action, r.RequestID)
	}
	fmt.Fprintf(&b, `</%sResponse>`, r.Action)
	return b.Bytes(), nil
}

func (r Response) errorXML(e *Error) []byte {
	var b bytes.Buffer
	code, message := escape(e.Code), escape(e.Message)
	if r.Protocol == EC2 {
		fmt.Fprintf(&b, `<Response><Errors><Error><Code>%s</Code><Message>%s</Message></Error></Errors><RequestID>%s</RequestID></Response>`,
			code, message, r.RequestID)
		return b.Bytes()
	}
	kind := "Sender"
	if e.Status >= 500 {
		kind = "Receiver"
	}
	fmt.Fprintf(&b, `<ErrorResponse xmlns=%q><Error><Type>%s</Type><Code>%s</Code><Message>%s</Message></Error><RequestId>%s</RequestId></ErrorResponse>`,
		r.Namespace, kind, code, message, r.RequestID)
	return b.Bytes()
}

func escape(s string) string {
	var b bytes.Buffer
	// Writing to a bytes.Buffer never fails.
	_ = xml.EscapeText(&b, []byte(s))
	return b.String()
}
