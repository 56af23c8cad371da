package backfire.inventory;

import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;

/** Writes what the topic says into {@code store_inventory}. */
@SpringBootApplication
public class InventoryService {
    public static void main(String[] arguments) {
        SpringApplication.run(InventoryService.class, arguments);
    }
}
