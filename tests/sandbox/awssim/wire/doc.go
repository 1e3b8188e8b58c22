// Package wire speaks the protocols of the AWS SDKs from the server's side.
//
// In goes what an unmodified SDK sends: a form for the EC2 and query protocols,
// a document for the JSON protocols. Out comes the answer or the error in the
// very form that SDK reads. The structs of aws-sdk-go (version 1) carry every
// wire name as a tag, so one reflective function reads all query requests and
// that SDK's own builder writes all XML answers.
//
// The package knows no service and holds no state.
package wire
