// Command smoke URI: what a user of the Go driver does in the first five minutes, with the results checked.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/version"
)

var checks int

// check ends the program when got is not want.
func check(what string, got, want any) {
	if !reflect.DeepEqual(got, want) {
		fail("%s: expected %v, got %v", what, want, got)
	}
	checks++
}

func fail(format string, values ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", values...)
	os.Exit(1)
}

// must gives a result whose error is none.
func must[T any](result T, err error) T {
	if err != nil {
		fail("%v", err)
	}
	return result
}

type part struct {
	ID    int      `bson:"_id"`
	Sku   string   `bson:"sku"`
	Kind  string   `bson:"kind"`
	Stock int      `bson:"stock"`
	Tags  []string `bson:"tags"`
}

func ids(ctx context.Context, cursor *mongo.Cursor) []int {
	var found []part
	if err := cursor.All(ctx, &found); err != nil {
		fail("%v", err)
	}
	numbers := []int{}
	for _, one := range found {
		numbers = append(numbers, one.ID)
	}
	return numbers
}

func smoke(ctx context.Context, client *mongo.Client) {
	db := client.Database("smoke_go")
	if err := db.Drop(ctx); err != nil {
		fail("%v", err)
	}
	parts := db.Collection("parts")

	check("ping", client.Ping(ctx, nil), nil)
	var build struct{ Version string }
	if err := db.RunCommand(ctx, bson.D{{Key: "buildInfo", Value: 1}}).Decode(&build); err != nil {
		fail("%v", err)
	}
	check("server version", build.Version != "", true)

	unique := mongo.IndexModel{Keys: bson.D{{Key: "sku", Value: 1}}, Options: options.Index().SetUnique(true)}
	check("create index", must(parts.Indexes().CreateOne(ctx, unique)), "sku_1")
	check("list indexes", len(must(parts.Indexes().ListSpecifications(ctx))), 2)

	one := must(parts.InsertOne(ctx, part{1, "a", "bolt", 10, []string{"m4", "steel"}}))
	check("insert one", one.InsertedID, int32(1))
	many := must(parts.InsertMany(ctx, []any{
		part{2, "b", "bolt", 5, []string{"m5"}}, part{3, "c", "nut", 7, []string{"m4"}}, part{4, "d", "nut", 0, []string{}},
	}))
	check("insert many", many.InsertedIDs, []any{int32(2), int32(3), int32(4)})
	_, err := parts.InsertOne(ctx, bson.D{{Key: "sku", Value: "a"}})
	check("duplicate key", mongo.IsDuplicateKeyError(err), true)

	var found part
	check("find one", parts.FindOne(ctx, bson.D{{Key: "sku", Value: "c"}}).Decode(&found), nil)
	check("found", found, part{3, "c", "nut", 7, []string{"m4"}})
	check("find none", errors.Is(parts.FindOne(ctx, bson.D{{Key: "sku", Value: "z"}}).Err(), mongo.ErrNoDocuments), true)
	byID := options.Find().SetSort(bson.D{{Key: "_id", Value: 1}})
	check("find by a list's element", ids(ctx, must(parts.Find(ctx, bson.D{{Key: "tags", Value: "m4"}}, byID))), []int{1, 3})
	batches := options.Find().SetSort(bson.D{{Key: "_id", Value: -1}}).SetBatchSize(2).SetSkip(1)
	check("find in small batches", ids(ctx, must(parts.Find(ctx, bson.D{}, batches))), []int{3, 2, 1})
	check("count", must(parts.CountDocuments(ctx, bson.D{{Key: "kind", Value: "nut"}})), int64(2))
	var kinds []string
	check("distinct", parts.Distinct(ctx, "kind", bson.D{}).Decode(&kinds), nil)
	check("kinds", kinds, []string{"bolt", "nut"})

	id := func(number int) bson.D { return bson.D{{Key: "_id", Value: number}} }
	increment := bson.D{{Key: "$inc", Value: bson.D{{Key: "stock", Value: -3}}}}
	updated := must(parts.UpdateOne(ctx, id(1), increment))
	check("update one", []int64{updated.MatchedCount, updated.ModifiedCount}, []int64{1, 1})
	set := bson.D{{Key: "$set", Value: bson.D{{Key: "sku", Value: "e"}, {Key: "kind", Value: "washer"}, {Key: "stock", Value: 1}}}}
	upserted := must(parts.UpdateOne(ctx, id(5), set, options.UpdateOne().SetUpsert(true)))
	check("update with upsert", upserted.UpsertedID, int32(5))
	after := options.FindOneAndUpdate().SetReturnDocument(options.After)
	check("find one and update", parts.FindOneAndUpdate(ctx, id(5), increment, after).Decode(&found), nil)
	check("after", found.Stock, -2)
	check("find one and delete", parts.FindOneAndDelete(ctx, id(5)).Err(), nil)

	sums := must(parts.Aggregate(ctx, mongo.Pipeline{
		{{Key: "$group", Value: bson.D{{Key: "_id", Value: "$kind"}, {Key: "stock", Value: bson.D{{Key: "$sum", Value: "$stock"}}}}}},
		{{Key: "$sort", Value: bson.D{{Key: "_id", Value: 1}}}},
	}))
	var groups []bson.M
	check("aggregate", sums.All(ctx, &groups), nil)
	check("groups", groups, []bson.M{{"_id": "bolt", "stock": int32(12)}, {"_id": "nut", "stock": int32(7)}})

	bulk := must(parts.BulkWrite(ctx, []mongo.WriteModel{
		mongo.NewInsertOneModel().SetDocument(part{6, "f", "nut", 1, nil}),
		mongo.NewUpdateOneModel().SetFilter(id(6)).SetUpdate(increment),
		mongo.NewDeleteOneModel().SetFilter(id(6)),
	}))
	check("bulk write", []int64{bulk.InsertedCount, bulk.ModifiedCount, bulk.DeletedCount}, []int64{1, 1, 1})

	var plan struct {
		QueryPlanner struct {
			WinningPlan struct {
				Stage      string
				InputStage struct{ IndexName string }
			}
		} `bson:"queryPlanner"`
	}
	find := bson.D{{Key: "find", Value: "parts"}, {Key: "filter", Value: bson.D{{Key: "sku", Value: "a"}}}}
	check("explain", db.RunCommand(ctx, bson.D{{Key: "explain", Value: find}}).Decode(&plan), nil)
	check("the plan", plan.QueryPlanner.WinningPlan.Stage, "FETCH")

	// The driver's own clock. It tells the server of it too, as maxTimeMS.
	failPoint := func(mode any) {
		command := bson.D{{Key: "configureFailPoint", Value: "failCommand"}, {Key: "mode", Value: mode}, {Key: "data", Value: bson.D{
			{Key: "failCommands", Value: bson.A{"insert"}}, {Key: "blockConnection", Value: true},
			{Key: "blockTimeMS", Value: 300}, {Key: "appName", Value: "smoke-go"}}}}
		check("fail point", client.Database("admin").RunCommand(ctx, command).Err(), nil)
	}
	failPoint(bson.D{{Key: "times", Value: 1}})
	short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	_, err = parts.InsertOne(short, part{9, "s", "nut", 1, nil})
	cancel()
	check("a write ends with the driver's time", mongo.IsTimeout(err), true)
	failPoint("off")

	must(parts.DeleteMany(ctx, id(9)))
	check("delete many", must(parts.DeleteMany(ctx, bson.D{{Key: "kind", Value: "nut"}})).DeletedCount, int64(2))
	check("what is left", ids(ctx, must(parts.Find(ctx, bson.D{}, byID))), []int{1, 2})
	check("drop database", db.Drop(ctx), nil)
	for _, name := range must(client.ListDatabaseNames(ctx, bson.D{})) {
		check("databases", name != "smoke_go", true)
	}
}

func main() {
	if len(os.Args) != 2 {
		fail("usage: smoke URI")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Second)
	defer cancel()
	client := must(mongo.Connect(options.Client().ApplyURI(os.Args[1]).SetAppName("smoke-go")))
	smoke(ctx, client)
	if err := client.Disconnect(ctx); err != nil {
		fail("%v", err)
	}
	line := must(json.Marshal(map[string]any{"client": "Go driver " + version.Driver, "checks": checks}))
	fmt.Println(string(line))
}
