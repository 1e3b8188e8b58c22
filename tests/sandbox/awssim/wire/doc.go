// Package wire implements the server's side of the protocols of the AWS SDKs.
//
// It decodes what an unmodified SDK sends: a form for the EC2 and query protocols, a document for the JSON protocols.
// It encodes the response or the error exactly as that SDK expects. The structs of aws-sdk-go (version 1) have every
// wire name as a tag, so one reflective function decodes all query requests and that SDK's own builder writes all XML
// responses.
//
// The package does not know any service and has no state.
package wire
