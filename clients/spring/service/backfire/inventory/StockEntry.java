package backfire.inventory;

/** A document of {@code store_inventory}; its {@code _id} is left to the driver. */
record StockEntry(String productId, int amount) {}
